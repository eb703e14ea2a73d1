/** Which transfers this browser's tabs are sending, and how many of them send or save. Each is a lock, which goes with its tab, however
 * that ends. Without a secure connection browsers have no locks. */

/** Milliseconds after which other tabs are looked at again. */
export const LOOK = 2_000;

const SENDING = "terahaul ";
const BUSY = "terahaul-busy";

/** Other tabs see that `transfer` is this one's to send, also while it pauses, until what it returns is called. */
export function hold(transfer: string): () => void {
  return lock(SENDING + transfer, "exclusive");
}

/** Other tabs see that this one needs connections to the depot, as it sends or saves, until what it returns is called. */
export function holdBusy(): () => void {
  return lock(BUSY, "shared");
}

function lock(name: string, mode: LockMode): () => void {
  const stop = new AbortController();
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  locks()?.request(name, { mode, signal: stop.signal }, () => held).catch(() => {});
  return () => {
    release();
    stop.abort();
  };
}

/** Transfers that a tab is sending. */
export async function sentByTabs(): Promise<ReadonlySet<string>> {
  return new Set((await held()).filter((name) => name.startsWith(SENDING)).map((name) => name.slice(SENDING.length)));
}

/** How many tabs send or save something now: the browser's connections to the depot are for all of them together. */
export async function busyTabs(): Promise<number> {
  return (await held()).filter((name) => name === BUSY).length;
}

async function held(): Promise<string[]> {
  const all = await locks()?.query();
  return all?.held?.map(({ name }) => name ?? "") ?? [];
}

function locks(): LockManager | undefined {
  return globalThis.navigator?.locks;
}
