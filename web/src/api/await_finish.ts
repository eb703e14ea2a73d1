/** Learns that a transfer has been finished: a depot tells nobody who has not asked. */
import { recheck } from "../engine/backoff";
import { DepotError } from "./error";
import { type Tab, pauseWhileSeen, thisTab } from "./tab";
import type { Transfer } from "./types";

interface Events {
  /** What the depot says of it now. */
  told(transfer: Transfer): void;
  /** A failure that will be tried again. */
  lost(error: DepotError): void;
}

/** Asks for `transfer`, which was open, now and then while the tab is seen, until it is not open any more, and returns it. What fails for
 * good, as where the transfer is removed, is thrown. */
export async function awaitFinish(
  transfer: Transfer,
  ask: () => Promise<Transfer>,
  signal: AbortSignal,
  events: Events,
  tab: Tab = thisTab,
): Promise<Transfer> {
  let known = transfer;
  for (let unchanged = 0; known.state === "open"; ) {
    if (await pauseWhileSeen(recheck(unchanged, Math.random()), tab, signal)) unchanged = 0;
    signal.throwIfAborted();
    try {
      const found = await ask();
      signal.throwIfAborted();
      unchanged = isFurther(known, found) ? 0 : unchanged + 1;
      known = found;
      events.told(found);
    } catch (error) {
      if (signal.aborted || !(error instanceof DepotError) || !error.retry) throw error;
      unchanged++;
      events.lost(error);
    }
  }
  return known;
}

function isFurther(before: Transfer, now: Transfer): boolean {
  return now.durable_bytes !== before.durable_bytes || now.entries !== before.entries;
}
