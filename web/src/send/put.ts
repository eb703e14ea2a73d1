/** One request that carries a chunk. `XMLHttpRequest`, because `fetch` does not tell how far an upload is. */
import { WRITE_HEADERS, paths, refusal } from "../api/depot";
import { DepotError } from "../api/error";
import { session } from "../api/session";
import type { BlockValue } from "../engine/upload";

export interface Put {
  /** Resolves to the depot's values; rejects with a `DepotError`, code `aborted` after `abort`. */
  readonly answer: Promise<BlockValue[]>;
  abort(): void;
}

/** With the page's own values the depot keeps no block of which its value is another. Chromium gives bytes to what sends
 * them in one piece of shared memory, and a `Blob` bit by bit. */
export function put(
  transfer: string, address: number, body: ArrayBuffer, values: readonly BlockValue[], progress: (loaded: number) => void,
): Put {
  const request = new XMLHttpRequest();
  const { accepted } = session;
  const answer = new Promise<BlockValue[]>((resolve, reject) => {
    request.upload.onprogress = ({ loaded }) => progress(loaded);
    request.onload = () => {
      if (request.status !== 200) {
        reject(refusal(request.status, request.responseText, accepted));
        return;
      }
      try {
        const { blocks } = JSON.parse(request.responseText) as { blocks?: BlockValue[] };
        if (!Array.isArray(blocks)) throw new TypeError("no blocks");
        resolve(blocks);
      } catch {
        reject(DepotError.unreadable(request.status));
      }
    };
    request.onerror = () => reject(DepotError.network());
    request.onabort = () => reject(new DepotError("aborted", "Called off.", 0, true));
  });
  request.open("PUT", paths.bytes(transfer, address));
  request.setRequestHeader("Content-Type", "application/octet-stream");
  for (const [name, value] of Object.entries(WRITE_HEADERS)) request.setRequestHeader(name, value);
  if (values.length > 0) request.setRequestHeader("Terahaul-Values", values.map(({ value }) => value).join(","));
  request.send(body);
  return { answer, abort: () => request.abort() };
}
