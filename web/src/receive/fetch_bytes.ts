/** Ranges of bytes from the depot. */
import { DepotError } from "../api/error";
import { persist } from "../api/persist";
import { fetchWhole } from "../api/whole";

/** Exactly `length` bytes, however often the connection breaks or goes silent: `lost` is told why, each time. */
export function fetchBytes(url: string, range: string | null, length: number, signal: AbortSignal, lost: (error: DepotError) => void): Promise<ArrayBuffer> {
  return persist(async () => {
    const init: RequestInit = { headers: range ? { Range: range } : {}, cache: "no-store" };
    const { response, bytes } = await fetchWhole(url, init, signal).catch((cause: unknown) => {
      if (signal.aborted) throw cause;
      throw DepotError.network();
    });
    if (!response.ok) throw DepotError.fromAnswer(response.status, new TextDecoder().decode(bytes));
    if (bytes.byteLength !== length) throw new DepotError("short_answer", "The answer was cut short.", response.status, true);
    return bytes.buffer;
  }, signal, lost);
}
