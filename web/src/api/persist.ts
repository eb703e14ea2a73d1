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

/** `lost` is told of each failure that will be tried again. */
export async function persist<T>(action: () => Promise<T>, signal: AbortSignal, lost: (error: DepotError) => void = () => {}): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await action();
    } catch (error) {
      if (signal.aborted || !(error instanceof DepotError) || !error.retry) throw error;
      lost(error);
      await waitOrOnline(backoff(failures, Math.random()), signal);
      if (signal.aborted) throw error;
    }
  }
}
