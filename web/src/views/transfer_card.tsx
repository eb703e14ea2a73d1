import { useState } from "preact/hooks";
import { paths } from "../api/depot";
import type { Transfer } from "../api/types";
import { plural } from "../engine/plural";
import { visible } from "../engine/visible";
import { Bar } from "../ui/bar";
import { CopyButton } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { bytes, date, dateTime, until } from "../ui/format";
import { DownloadIcon } from "../ui/icons";
import { Name } from "../ui/name";

const DAY = 86_400;
/** Days that a transfer may be kept for, of which those are offered that are longer than what it has. The last is the most. */
const EXPIRIES = [7, 30, 90, 365, 1095, 3650];

interface Props {
  transfer: Transfer;
  /** This page is sending it now. */
  sending: boolean;
  /** It is sending this one or another. */
  busy: boolean;
  onExtend: (days: number) => Promise<void>;
  onRemove: () => Promise<void>;
  onResume: () => void;
}

export function TransferCard({ transfer, sending, busy, onExtend, onRemove, onResume }: Props) {
  const [asking, setAsking] = useState<"extend" | "delete" | null>(null);
  // By days a depot counts, which begin now.
  const later = EXPIRIES.filter((days) => transfer.expires === null || Date.now() / 1000 + days * DAY > transfer.expires + DAY / 2);
  const [chosen, setDays] = useState<number | null>(null);
  const days = chosen !== null && later.includes(chosen) ? chosen : later[0];
  const { name, state, files, failed, durable_bytes, created, expires, link } = transfer;
  const total = transfer.bytes;
  const title = `transfer-${transfer.id}`;
  const close = () => setAsking(null);
  return (
    <li class="card transfer" aria-labelledby={title}>
      <div class="heading">
        <h2 id={title} class="break"><a href={`/t/${transfer.id}`}><Name>{name}</Name></a></h2>
        <span class={`chip ${sending ? "open" : state}`}>{sending ? "sending" : label(transfer)}</span>
      </div>
      <p class="quiet">
        {plural(files, "file")}, {bytes(total)} · {dateTime(created)}
        {expires !== null && <> · <span title={dateTime(expires)}>{until(expires, Date.now() / 1000)}</span></>}
        {failed > 0 && <> · <span class="bad">{plural(failed, "file")} failed</span></>}
      </p>
      {state === "open" && !sending && total > 0 && <Bar small value={durable_bytes / total} label={`${visible(name)}: stored so far`} />}
      <div class="buttons">
        {sending && <a class="button" href="#/send">Show progress</a>}
        {state !== "complete" && !sending && <button class="primary" disabled={busy} title={busy ? "Another transfer is being sent" : undefined} onClick={onResume}>Resume</button>}
        {state !== "open" && link && <CopyButton text={link} label="Copy link" what="Link" />}
        {state !== "open" && (
          <a class="button" href={paths.receipt(transfer.id)} download={`${name}.receipt.json`}><DownloadIcon />Receipt</a>
        )}
        <button disabled={later.length === 0} onClick={() => setAsking("extend")}>Extend</button>
        <button class="danger" disabled={sending} onClick={() => setAsking("delete")}>Delete</button>
      </div>
      {asking === "extend" && days !== undefined && (
        <Dialog title="Keep it for longer" onClose={close}>
          <label for="days">From today, keep it for</label>
          <select id="days" value={String(days)} onChange={(event) => setDays(Number(event.currentTarget.value))}>
            {later.map((count) => (
              <option key={count} value={String(count)}>{plural(count, "day")}, until {date(Date.now() / 1000 + count * DAY)}</option>
            ))}
          </select>
          <div class="buttons">
            <button onClick={close}>Leave as it is</button>
            <button class="primary" onClick={() => void onExtend(days).then(close)}>Extend</button>
          </div>
        </Dialog>
      )}
      {asking === "delete" && (
        <Dialog title={`Delete “${visible(name)}”?`} onClose={close}>
          <p>Its files are removed from the depot and its link stops working. This cannot be undone.</p>
          <div class="buttons">
            <button autofocus onClick={close}>Keep</button>
            <button class="danger solid" onClick={() => void onRemove().then(close)}>Delete</button>
          </div>
        </Dialog>
      )}
    </li>
  );
}

function label({ state }: Transfer): string {
  return state === "open" ? "unfinished" : state === "partial" ? "partly arrived" : "complete";
}
