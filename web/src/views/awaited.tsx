import type { Transfer, TransferState } from "../api/types";
import { bytes } from "../ui/format";
import { Notice } from "../ui/notice";
import { Words } from "../ui/words";

const SAYS: Record<TransferState, string> = {
  open: "The sender has not finished yet. This page shows all of it as soon as it is here.",
  complete: "The sender has finished: all of it is here now.",
  partial: "The sender has finished, but not all of it arrived.",
};

/** Whether the sender of what was unfinished when it was opened has finished by now: one live region, so that the change is said. */
export function Awaited({ transfer: { state, bytes: total, durable_bytes } }: { transfer: Transfer }) {
  const figures = state === "open" && total > 0 && <p class="quiet"><Words>{`${bytes(Math.min(durable_bytes, total))} of ${bytes(total)} are here`}</Words></p>;
  return <Notice kind={state === "complete" ? "done" : "info"} below={figures}><Words>{SAYS[state]}</Words></Notice>;
}
