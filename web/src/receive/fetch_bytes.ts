/** Runs of bytes from the depot. */
import { paths } from "../api/depot";
import { DepotError } from "../api/error";
import { plainly } from "../api/link";
import { persist } from "../api/persist";
import { SILENCE, fetchParts, joined } from "../api/whole";
import type { EntryIndex } from "../engine/units";
import { Turns } from "./turns";

interface Request {
  readonly url: string;
  /** The first byte of the range that it asks for, or `null`: it asks for no range. */
  readonly first: number | null;
  readonly headers: Record<string, string>;
}

/** Bytes that the depot has, and how to ask for them. */
export interface Run {
  readonly length: number;
  /** The request for all but the first `got` bytes. */
  after(got: number): Request;
}

/** Of the transfer's address space. */
export function addressRun(transfer: string, address: number, length: number): Run {
  return {
    length,
    after: (got) => ({ url: `${paths.bytes(transfer, address + got)}?length=${length - got}`, first: null, headers: {} }),
  };
}

/** Of one file, which has the BLAKE3 value `hash`: that is its tag, so what comes is of this content and of no other. */
export function fileRun(transfer: string, entry: EntryIndex, hash: string | null, offset: number, length: number): Run {
  const same: Record<string, string> = hash ? { "If-Range": `"${hash}"` } : {};
  return {
    length,
    after: (got) => {
      const first = offset + got;
      return { url: paths.file(transfer, entry), first, headers: { Range: `bytes=${first}-${offset + length - 1}`, ...same } };
    },
  };
}

export interface FetchEvents {
  /** So many bytes more are here. */
  heard(bytes: number): void;
  /** Why the connection broke or the depot could not answer, each time. */
  lost(error: DepotError): void;
}

/** All of `run`, however often the connection breaks or goes silent, or the turn to ask is called off: what came before that is not asked
 * for again. */
export function fetchBytes(
  run: Run,
  signal: AbortSignal,
  events: FetchEvents,
  through = plainly,
  turns = new Turns(Infinity),
): Promise<ArrayBuffer> {
  const bytes = new Uint8Array(run.length);
  let got = 0;
  /** Asks for what is missing, until `enough` ends, too. */
  const ask = async (gotOn: () => void, enough: AbortSignal) => {
    const { url, first, headers } = run.after(got);
    const refusal: Uint8Array[] = [];
    const take = (part: Uint8Array, answer: Response) => {
      if (!answer.ok) return void refusal.push(part);
      if (!isOf(answer, first) || got + part.length > run.length) throw foreign(answer, headers["If-Range"]);
      bytes.set(part, got);
      got += part.length;
      gotOn();
      events.heard(part.length);
    };
    const { response } = await fetchParts(url, { headers, cache: "no-store" }, enough, SILENCE, take).catch((cause: unknown) => {
      if (enough.aborted || cause instanceof DepotError) throw cause;
      throw DepotError.network();
    });
    if (!response.ok) throw DepotError.fromAnswer(response.status, new TextDecoder().decode(joined(refusal)));
    if (got < run.length) throw new DepotError("short_answer", "The answer was cut short.", response.status, true);
  };
  const attempt = async (gotOn: () => void) => {
    // The last one may have broken off after its last byte.
    while (got < run.length) {
      const turn = await turns.take();
      const stop = () => turn.callOff();
      signal.addEventListener("abort", stop);
      if (signal.aborted) stop();
      try {
        await ask(gotOn, turn.signal);
      } catch (error) {
        if (signal.aborted || !turn.signal.aborted) throw error;
      } finally {
        signal.removeEventListener("abort", stop);
        turn.end();
      }
    }
    return bytes.buffer;
  };
  return persist((gotOn) => through(() => attempt(gotOn)), signal, events.lost);
}

/** Whether it is what was asked for: something between may answer in the depot's place, or know nothing of ranges. */
function isOf(answer: Response, first: number | null): boolean {
  if (answer.headers.get("Content-Type") !== "application/octet-stream") return false;
  if (first === null) return answer.status === 200;
  return answer.status === 206 && answer.headers.get("Content-Range")?.startsWith(`bytes ${first}-`) === true;
}

function foreign(answer: Response, tag: string | undefined): DepotError {
  const is = answer.headers.get("ETag");
  if (tag === undefined || is === null || is === tag) return DepotError.unreadable(answer.status);
  return new DepotError("other_content", "The depot has another content for it than it said: reload the page.", answer.status, false);
}
