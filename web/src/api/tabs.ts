/** Which transfers this browser's tabs are sending, and how many of them send or save. Each is a lock, which goes with its tab, however
 * that ends. Without a secure connection browsers have no locks. */

const SENDING = "terahaul ";
const SAVING = "terahaul-saving";

/** Other tabs see that this one sends `transfer`, until what it returns is called. */
export function hold(transfer: string): () => void {
  return lock(SENDING + transfer, "exclusive");
}

/** Other tabs see that this one saves something, until what it returns is called. */
export function holdSaving(): () => void {
  return lock(SAVING, "shared");
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
  return new Set((await held()).filter(isSending).map((name) => name.slice(SENDING.length)));
}

/** How many tabs send or save something: the browser's connections to the depot are for all of them together. */
export async function busyTabs(): Promise<number> {
  return (await held()).filter((name) => isSending(name) || name === SAVING).length;
}

function isSending(name: string): boolean {
  return name.startsWith(SENDING);
}

async function held(): Promise<string[]> {
  const all = await locks()?.query();
  return all?.held?.map(({ name }) => name ?? "") ?? [];
}

function locks(): LockManager | undefined {
  return globalThis.navigator?.locks;
}
