/** Repeats a call until it succeeds or fails for good. */
import { backoff } from "../engine/backoff";
import { DepotError } from "./error";

/** Waits, but not past the moment when the browser says that the network is back. */
export function waitOrOnline(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}

/** `lost` is told of each failure that will be tried again. Nothing is begun once `signal` calls it off. An action that says that it got on begins the delays anew. */
export async function persist<T>(
  action: (gotOn: () => void) => Promise<T>,
  signal: AbortSignal,
  lost: (error: DepotError) => void = () => {},
): Promise<T> {
  let failures = 0;
  const gotOn = () => {
    failures = 0;
  };
  for (;;) {
    signal.throwIfAborted();
    try {
      return await action(gotOn);
    } catch (error) {
      if (signal.aborted || !(error instanceof DepotError) || !error.retry) throw error;
      lost(error);
      await waitOrOnline(backoff(++failures, Math.random()), signal);
    }
  }
}
