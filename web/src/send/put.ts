/** One request that carries a chunk. `XMLHttpRequest`, because `fetch` does not tell how far an upload is. */
import { WRITE_HEADERS, paths } from "../api/depot";
import { DepotError } from "../api/error";
import type { BlockValue } from "../engine/upload";

export interface Put {
  /** Resolves to the depot's values; rejects with a `DepotError`, code `aborted` after `abort`. */
  readonly answer: Promise<BlockValue[]>;
  abort(): void;
  /** Resolves when so many bytes of the body have gone out, or the request is over, however it went. */
  reached(bytes: number): Promise<void>;
}

/** `body` must be a `Blob`: browsers stream one from disk, whereas an `ArrayBuffer` is copied through slowly. */
export function put(transfer: string, address: number, body: Blob, progress: (loaded: number) => void): Put {
  const request = new XMLHttpRequest();
  let waiting: { bytes: number; resolve(): void }[] = [];
  let gone = 0;
  const release = (bytes: number) => {
    gone = bytes;
    for (const { resolve } of waiting.filter((one) => one.bytes <= gone)) resolve();
    waiting = waiting.filter((one) => one.bytes > gone);
  };
  request.onloadend = () => release(Infinity);
  const answer = new Promise<BlockValue[]>((resolve, reject) => {
    request.upload.onprogress = (event) => {
      release(event.loaded);
      progress(event.loaded);
    };
    request.onload = () => {
      if (request.status !== 200) {
        reject(DepotError.fromAnswer(request.status, request.responseText));
        return;
      }
      try {
        resolve((JSON.parse(request.responseText) as { blocks: BlockValue[] }).blocks);
      } catch {
        reject(new DepotError("bad_answer", "The depot's answer cannot be read.", request.status, true));
      }
    };
    request.onerror = () => reject(DepotError.network());
    request.onabort = () => reject(new DepotError("aborted", "Called off.", 0, true));
  });
  request.open("PUT", paths.bytes(transfer, address));
  request.setRequestHeader("Content-Type", "application/octet-stream");
  for (const [name, value] of Object.entries(WRITE_HEADERS)) request.setRequestHeader(name, value);
  request.send(body);
  const reached = (bytes: number) => new Promise<void>((resolve) => (bytes <= gone ? resolve() : waiting.push({ bytes, resolve })));
  return { answer, abort: () => request.abort(), reached };
}
