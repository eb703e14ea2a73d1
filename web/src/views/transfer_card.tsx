import { useState } from "preact/hooks";
import { depotNow } from "../api/clock";
import { type Transfer, isManageable, isYours, sizeOf } from "../api/types";
import { plural } from "../engine/plural";
import { visible } from "../engine/visible";
import { Bar } from "../ui/bar";
import { Button } from "../ui/button";
import { CopyButton } from "../ui/copy";
import { bytes, dateTime, until } from "../ui/format";
import { Name } from "../ui/name";
import { useReceipt } from "./receipt";
import { Delete, Extend, longerThan } from "./transfer_dialogs";

interface Props {
  transfer: Transfer;
  /** This page is sending it now. */
  sending: boolean;
  /** It is sending this one or another. */
  busy: boolean;
  /** Both fail where the depot refuses. */
  onExtend: (days: number, signal: AbortSignal) => Promise<void>;
  onRemove: (signal: AbortSignal) => Promise<void>;
  onResume: () => void;
}

export function TransferCard({ transfer, sending, busy, onExtend, onRemove, onResume }: Props) {
  const [asking, setAsking] = useState<"extend" | "delete" | null>(null);
  const { name, state, failed, durable_bytes, created, expires, link, sender } = transfer;
  const receipt = useReceipt(transfer);
  const manageable = isManageable(transfer);
  const extensible = longerThan(expires).length > 0;
  const { files, bytes: total } = sizeOf(transfer);
  const title = `transfer-${transfer.id}`;
  const close = () => setAsking(null);
  return (
    <li class="card transfer" aria-labelledby={title}>
      <div class="heading">
        <h2 id={title} class="break">
          {/* What is being sent would end with the page. */}
          <a href={`/t/${transfer.id}`} {...(busy ? { target: "_blank", title: "Opens in a new tab" } : {})}><Name>{name}</Name></a>
        </h2>
        <span class={`chip ${sending ? "open" : state}`}>{sending ? "sending" : label(transfer)}</span>
      </div>
      <p class="quiet">
        {plural(files, "file")}, {bytes(total)} · {dateTime(created)}
        {!isYours(transfer) && sender !== undefined && <> · from <Name>{sender}</Name></>}
        {expires !== null && <> · <span title={dateTime(expires)}>{until(expires, depotNow())}</span></>}
        {failed > 0 && <> · <span class="bad">{plural(failed, "file")} failed</span></>}
      </p>
      {state === "open" && !sending && total > 0 && <Bar small value={durable_bytes / total} label={`${visible(name)}: stored so far`} />}
      <div class="buttons">
        {sending && <a class="button" href="#/send">Show progress</a>}
        {manageable && state !== "complete" && !sending && <Button class="primary" held={busy} title={busy ? "Another transfer is being sent" : undefined} onClick={onResume}>Resume</Button>}
        {state !== "open" && link && <CopyButton text={link} label="Copy link" what="Link" />}
        {state !== "open" && receipt.link}
        {manageable && (
          <>
            <Button held={!extensible} onClick={() => setAsking("extend")}>Extend</Button>
            <Button class="danger" held={sending} onClick={() => setAsking("delete")}>Delete</Button>
          </>
        )}
      </div>
      {receipt.problem}
      {asking === "extend" && <Extend transfer={transfer} onExtend={(...asked) => onExtend(...asked).then(close)} onClose={close} />}
      {asking === "delete" && <Delete transfer={transfer} onDelete={onRemove} onClose={close} />}
    </li>
  );
}

function label({ state }: Transfer): string {
  return state === "open" ? "unfinished" : state === "partial" ? "partly arrived" : "complete";
}
