/** What a transfer's card asks. A question stays until it is done, and says why it was not. */
import { useState } from "preact/hooks";
import { depotNow } from "../api/clock";
import type { Transfer } from "../api/types";
import { plural } from "../engine/plural";
import { visible } from "../engine/visible";
import { useAttempt } from "../ui/attempt";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { date } from "../ui/format";
import { Notice } from "../ui/notice";

const DAY = 86_400;
/** Days that a transfer may be kept for, of which those are offered that are longer than what it has. The last is the most. */
const EXPIRIES = [7, 30, 90, 365, 1095, 3650];

/** By days a depot counts, which begin now. */
export function longerThan(expires: number | null): number[] {
  return EXPIRIES.filter((days) => expires === null || depotNow() + days * DAY > expires + DAY / 2);
}

interface ExtendProps {
  transfer: Transfer;
  onExtend: (days: number, signal: AbortSignal) => Promise<void>;
  onClose: () => void;
}

export function Extend({ transfer, onExtend, onClose }: ExtendProps) {
  const later = longerThan(transfer.expires);
  const [chosen, setDays] = useState<number | null>(null);
  const days = chosen !== null && later.includes(chosen) ? chosen : later[0];
  const { problem, running, attempt, close } = useAttempt(onClose);
  if (days === undefined) return null;
  const extend = () =>
    attempt({
      action: (signal) => onExtend(days, signal),
      failed: "It was not extended",
      unsure: "It may be kept for longer all the same: look at the list again later.",
    });
  return (
    <Dialog title="Keep it for longer" onClose={close}>
      <label for="days">From today, keep it for</label>
      <select id="days" value={String(days)} onChange={(event) => setDays(Number(event.currentTarget.value))}>
        {later.map((count) => (
          <option key={count} value={String(count)}>{plural(count, "day")}, until {date(depotNow() + count * DAY)}</option>
        ))}
      </select>
      {problem && <Notice kind="error">{problem}</Notice>}
      <div class="buttons">
        <button onClick={close}>Leave as it is</button>
        <Button class="primary" held={running} onClick={extend}>Extend</Button>
      </div>
    </Dialog>
  );
}

interface DeleteProps {
  transfer: Transfer;
  onDelete: (signal: AbortSignal) => Promise<void>;
  onClose: () => void;
}

export function Delete({ transfer, onDelete, onClose }: DeleteProps) {
  const { problem, running, attempt, close } = useAttempt(onClose);
  const remove = () =>
    attempt({
      action: onDelete,
      failed: "It was not deleted",
      unsure: "It may be deleted all the same: look at the list again later.",
    });
  return (
    <Dialog title={`Delete “${visible(transfer.name)}”?`} onClose={close}>
      <p>Its files are removed from the depot and its link stops working. This cannot be undone.</p>
      {problem && <Notice kind="error">{problem}</Notice>}
      <div class="buttons">
        <button autofocus onClick={close}>Keep</button>
        <Button class="danger solid" held={running} onClick={remove}>Delete</Button>
      </div>
    </Dialog>
  );
}
