/** Answers to their last byte. */

/** Milliseconds without a byte after which what is read is given up. A browser waits for ever for what a line that went dead under it owes. */
export const SILENCE = 60_000;

export interface Answer {
  readonly response: Response;
  /** When it began. */
  readonly answered: number;
}

export interface WholeAnswer extends Answer {
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** `fetch`, to the answer's last byte, or until nothing has come for `silence` milliseconds. `take` is given each part as it comes; what it
 * throws ends the answer. */
export async function fetchParts(
  url: string,
  init: RequestInit,
  signal: AbortSignal | null,
  silence: number,
  take: (part: Uint8Array, response: Response) => void,
): Promise<Answer> {
  const stop = new AbortController();
  const abort = () => stop.abort();
  let timer = setTimeout(abort, silence);
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(abort, silence);
  };
  signal?.addEventListener("abort", abort);
  if (signal?.aborted) abort();
  try {
    const response = await fetch(url, { ...init, signal: stop.signal });
    const answered = performance.now();
    heard();
    const reader = response.body?.getReader();
    for (let part = await reader?.read(); part?.value; part = await reader?.read()) {
      take(part.value, response);
      heard();
    }
    return { response, answered };
  } catch (cause) {
    // The rest of it would still come.
    stop.abort();
    throw cause;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

/** The same with all of its bytes at once. */
export async function fetchWhole(url: string, init: RequestInit, signal: AbortSignal | null, silence: number): Promise<WholeAnswer> {
  const parts: Uint8Array[] = [];
  const answer = await fetchParts(url, init, signal, silence, (part) => parts.push(part));
  return { ...answer, bytes: joined(parts) };
}

export function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
