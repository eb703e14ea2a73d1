/** Answers with all of their bytes. */

/** Milliseconds without a byte after which an answer is given up. A browser waits for ever for what a line that went dead under it owes. */
const SILENCE = 60_000;
/** The same for a write. */
const LONGEST = 15 * 60_000;

export interface WholeAnswer {
  readonly response: Response;
  /** When it began. */
  readonly answered: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** `fetch`, to the answer's last byte, or until nothing has come for a minute. A write may take its time: nothing is heard either while its
 * body is on the way, or while the depot finishes a transfer. */
export async function fetchWhole(url: string, init: RequestInit, signal: AbortSignal | null): Promise<WholeAnswer> {
  const silence = (init.method ?? "GET") === "GET" ? SILENCE : LONGEST;
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
    const parts: Uint8Array[] = [];
    const reader = response.body?.getReader();
    for (let part = await reader?.read(); part?.value; part = await reader?.read()) {
      parts.push(part.value);
      heard();
    }
    return { response, answered, bytes: joined(parts) };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
