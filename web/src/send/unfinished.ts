/** Which transfer whoever comes to send something may mean to go on with. */
import { type Transfer, isYours } from "../api/types";

/** Seconds for which somebody remembers that he began one. */
const REMEMBERED = 7 * 86_400;

/** The latest of `transfers` that whoever asks has begun and not finished, if that is not long ago. Times are seconds since 1970. */
export function unfinishedOf(transfers: readonly Transfer[], now: number): Transfer | null {
  const begun = ({ state, bytes, created }: Transfer) => state === "open" && bytes > 0 && now - created < REMEMBERED;
  const candidates = transfers.filter((transfer) => isYours(transfer) && begun(transfer));
  return candidates.reduce<Transfer | null>((latest, one) => (latest && latest.created >= one.created ? latest : one), null);
}
