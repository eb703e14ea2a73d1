/** Waits for hash workers whose script comes over a network that may be lost. */
import { DepotError } from "../api/error";
import { persist } from "../api/persist";
import { SILENCE, fetchWhole } from "../api/whole";
import { CannotHash, type HashPool, WorkerFailed } from "./pool";

/** Workers that do not start though their script is there: in a row. */
const MOST_UNEXPLAINED = 3;

/** Resolves when the workers of `pool` have their script, however often the connection breaks before; `lost` is told of each time. Rejects
 * with `WorkerFailed` where they do not start for another reason: the depot may have been upgraded, and the script be gone, or the browser does not
 * run it. */
export function startHashers(pool: HashPool, signal: AbortSignal, lost: (error: DepotError) => void): Promise<void> {
  let unexplained = 0;
  const attempt = async () => {
    try {
      await pool.started();
    } catch (failed) {
      if (failed instanceof CannotHash) throw failed;
      throw (await whyNoWorker(signal)) ?? (++unexplained < MOST_UNEXPLAINED ? DepotError.network() : failed);
    }
  };
  return persist(attempt, signal, lost);
}

/** A browser does not say why a worker did not start: a `WorkerFailed` is for good, as its script is gone, and a `DepotError` for now. `null` where
 * the script can be had. */
export async function whyNoWorker(signal: AbortSignal): Promise<WorkerFailed | DepotError | null> {
  let status: number;
  try {
    const { response } = await fetchWhole(HASH_WORKER, { method: "HEAD", cache: "no-store" }, signal, SILENCE);
    status = response.status;
  } catch {
    return DepotError.network();
  }
  if (status < 400) return null;
  return status < 500 ? new WorkerFailed("the hash worker's script is gone") : DepotError.fromAnswer(status, "");
}
