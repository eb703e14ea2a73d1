/** A transfer before it goes on. */
import type { Transfer } from "../api/types";
import { Selection } from "./selection";

export interface Resuming {
  readonly id: string;
  /** `null` where only the address tells of it, as after a reload. */
  readonly transfer: Transfer | null;
  /** What was chosen again. */
  readonly selection: Selection;
}

/** Begins to go on with a transfer, or comes back to it: what was chosen for it stays. */
export function resumingOf(id: string, transfer: Transfer | null, before: Resuming | null): Resuming {
  if (before?.id !== id) return { id, transfer, selection: new Selection() };
  return transfer ? { ...before, transfer } : before;
}

/** The same with what was chosen for something to send, if anything was: folders that were dropped may still be being read. */
export function resumingWith(transfer: Transfer, selection: Selection, before: Resuming | null): Resuming {
  const unchosen = selection.empty && selection.reading === null;
  return unchosen ? resumingOf(transfer.id, transfer, before) : { id: transfer.id, transfer, selection };
}
