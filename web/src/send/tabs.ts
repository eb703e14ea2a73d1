/** Which transfers this browser's tabs are sending. Each is a lock, which goes with its tab, however that ends. */

const LOCK = "terahaul ";

/** Other tabs see that this one sends `transfer`, until what it returns is called. Without a secure connection browsers have no locks. */
export function hold(transfer: string): () => void {
  const stop = new AbortController();
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  navigator.locks?.request(LOCK + transfer, { signal: stop.signal }, () => held).catch(() => {});
  return () => {
    release();
    stop.abort();
  };
}

/** Transfers that a tab is sending. */
export async function sentByTabs(): Promise<ReadonlySet<string>> {
  const locks = await navigator.locks?.query();
  const names = locks?.held?.map(({ name }) => name ?? "") ?? [];
  return new Set(names.filter((name) => name.startsWith(LOCK)).map((name) => name.slice(LOCK.length)));
}
