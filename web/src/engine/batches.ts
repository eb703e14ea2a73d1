/** Cuts a manifest into the batches that the depot takes. */

/** The first batch is small, as sending begins with it: a connection that is new carries ten packets in its first round
 * trip. Each later one may be so many times as large. */
const FIRST_ENTRIES = 100;
const GROWTH = 4;
const MOST_ENTRIES = 5000;
/** Below the depot's limit for one request, with room for the frame around the entries. */
const MOST_BYTES = 3_000_000;
/** An entry without its path, escaped at its longest. */
const ENTRY_BYTES = 160;

export function batches<E extends { readonly path: string }>(entries: readonly E[]): E[][] {
  const all: E[][] = [];
  let batch: E[] = [];
  let bytes = 0;
  let most = FIRST_ENTRIES;
  for (const entry of entries) {
    // A character takes six bytes at most in JSON, and most take one.
    const cost = ENTRY_BYTES + 3 * entry.path.length;
    if (batch.length > 0 && (batch.length === most || bytes + cost > MOST_BYTES)) {
      all.push(batch);
      most = Math.min(most * GROWTH, MOST_ENTRIES);
      batch = [];
      bytes = 0;
    }
    batch.push(entry);
    bytes += cost;
  }
  if (batch.length > 0) all.push(batch);
  return all;
}
