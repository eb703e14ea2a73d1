/** Cuts a manifest into the batches that the depot takes. */
const MOST_ENTRIES = 5000;
/** Below the depot's limit for one request, with room for the frame around the entries. */
const MOST_BYTES = 3_000_000;
/** An entry without its path, escaped at its longest. */
const ENTRY_BYTES = 160;

export function batches<E extends { readonly path: string }>(entries: readonly E[]): E[][] {
  const all: E[][] = [];
  let batch: E[] = [];
  let bytes = 0;
  for (const entry of entries) {
    // A character takes six bytes at most in JSON, and most take one.
    const cost = ENTRY_BYTES + 3 * entry.path.length;
    if (batch.length > 0 && (batch.length === MOST_ENTRIES || bytes + cost > MOST_BYTES)) {
      all.push(batch);
      batch = [];
      bytes = 0;
    }
    batch.push(entry);
    bytes += cost;
  }
  if (batch.length > 0) all.push(batch);
  return all;
}
