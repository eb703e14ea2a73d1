/** Calls to the depot's API. Every failure is a `DepotError`. */
import type { BlockRun, EntryIndex } from "../engine/units";
import { handleDate } from "./clock";
import { DepotError } from "./error";
import { session } from "./session";
import { SILENCE, fetchWhole } from "./whole";
import type { CreatedTransfer, EntryPage, Extents, Failure, NewEntry, PlacedEntry, SessionInfo, Transfer } from "./types";

export const API = "/api/v1";

/** Sent with every write, so that another site's form cannot make one with this browser's cookie. */
export const WRITE_HEADERS = { "Terahaul-Csrf": "1" };

let shortest: number | null = null;

/** How long a round trip to the depot takes, in milliseconds: the shortest that a call has taken so far, 0 before the
 * first one. */
export function roundTrip(): number {
  return shortest ?? 0;
}

/** Milliseconds for which nothing may be heard of a write. */
const WRITE_SILENCE = 2 * SILENCE;
/** Bytes of a body that come in a millisecond at least: over a thin line a long one is on the way for minutes, beside the files. */
const BODY_PACE = 4;
/** The same while the depot finishes a transfer. */
const FINISH_SILENCE = 15 * SILENCE;

/** Fields that an answer has in any case; `null` where it has nothing in it. Whatever answers in the depot's place, as a server on the way may,
 * knows nothing of these. */
type Shape<T> = T extends void ? null : readonly (keyof T & string)[];

async function call<T = void>(
  shape: Shape<T>,
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal,
  least = method === "GET" ? SILENCE : WRITE_SILENCE,
): Promise<T> {
  const headers: Record<string, string> = method === "GET" ? {} : { ...WRITE_HEADERS };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  let answered: string;
  const asked = performance.now();
  const { accepted } = session;
  try {
    const text = body === undefined ? null : JSON.stringify(body);
    const init: RequestInit = { method, headers, cache: "no-store", body: text };
    const silence = Math.max(least, SILENCE + (text?.length ?? 0) / BODY_PACE);
    const answer = await fetchWhole(API + path, init, signal ?? null, silence);
    shortest = Math.min(shortest ?? Infinity, answer.answered - asked);
    response = answer.response;
    handleDate(response.headers.get("Date"));
    answered = new TextDecoder().decode(answer.bytes);
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw DepotError.network();
  }
  if (!response.ok) throw refusal(response.status, answered, accepted);
  const taken = read<T>(shape, response.status, answered);
  session.handleTaken(accepted);
  return taken;
}

function read<T>(shape: Shape<T>, status: number, text: string): T {
  let answer: unknown;
  try {
    answer = text === "" ? null : JSON.parse(text);
  } catch {
    // It has no fields.
  }
  const isWhole = shape === null ? status === 204 : typeof answer === "object" && answer !== null && shape.every((field) => field in answer);
  if (!isWhole) throw DepotError.unreadable(status);
  return answer as T;
}

const SESSION: Shape<SessionInfo> = ["scopes", "label"];
const TRANSFER: Shape<Transfer> = ["id", "state", "expires", "bytes"];

/** What the depot's answer says went wrong. That nobody is signed in is for the whole page to know: by the depot's own word, but for the first
 * time, as there are proxies that put words of theirs in the place of any refusal. `accepted` is the session's as the
 * request began: it may have been on its way since before somebody signed in again. */
export function refusal(status: number, text: string, accepted: number): DepotError {
  const error = DepotError.fromAnswer(status, text);
  const isSessions = status === 401 && (!error.isOthers || session.state === "unknown");
  return isSessions && !session.handleRefused(accepted) ? error.again() : error;
}

/** Has the browser open connections for the requests to come, so that their handshakes are over by then. It opens one
 * only for a request that finds none idle, so these are `count` requests at once, for something small. Equal ones would
 * wait for each other. */
export function openConnections(count: number): void {
  for (let at = 0; at < count; at++) call<SessionInfo>(SESSION, "GET", `/session?connection=${at}`).catch(() => {});
}

export const paths = {
  bytes: (id: string, address: number) => `${API}/transfers/${id}/bytes/${address}`,
  file: (id: string, entry: EntryIndex) => `${API}/transfers/${id}/files/${entry}`,
  zip: (id: string) => `${API}/transfers/${id}/zip`,
  receipt: (id: string) => `${API}/transfers/${id}/receipt`,
};

export const depot = {
  session: (signal?: AbortSignal) =>
    call<SessionInfo>(SESSION, "GET", "/session", undefined, signal).then((info) => session.handleAccepted(info)),
  signIn: (proof: { code: string } | { token: string }) =>
    call<SessionInfo>(SESSION, "POST", "/session", proof).then((info) => session.handleSignedIn(info)),
  signOut: (signal?: AbortSignal) => call(null, "DELETE", "/session", undefined, signal).then(() => session.handleSignedOut()),

  transfers: (limit: number, before?: string) =>
    call<{ transfers: Transfer[]; next: string | null }>(["transfers", "next"], "GET", `/transfers?limit=${limit}${before ? `&before=${before}` : ""}`),
  /** Again with the same key and entries, it answers the transfer that it has made of them. */
  create: (name: string, expires_in_days: number, resume_key: string, entries: NewEntry[], seal: boolean) =>
    call<CreatedTransfer>(["id", "placed"], "POST", "/transfers", { name, expires_in_days, resume_key, entries, seal }),
  madeWith: (resume_key: string) => call<{ transfers: Transfer[] }>(["transfers"], "GET", `/transfers?resume_key=${resume_key}`),
  transfer: (id: string) => call<Transfer>(TRANSFER, "GET", `/transfers/${id}`),
  extend: (id: string, expires_in_days: number, signal?: AbortSignal) => call<Transfer>(TRANSFER, "PATCH", `/transfers/${id}`, { expires_in_days }, signal),
  /** One that is gone already is as it should be. It was seen by `holder`: to somebody else it may only not be shown. */
  remove: (id: string, holder: string | null, signal?: AbortSignal) =>
    call(null, "DELETE", `/transfers/${id}`, undefined, signal).catch(async (error: unknown) => {
      if (!(error instanceof DepotError && error.isNotFound)) throw error;
      // Another tab may have signed in as that.
      await depot.session(signal);
      if (session.holder !== holder) throw DepotError.notShown();
    }),

  append: (id: string, entries: NewEntry[], first: number, seal: boolean, signal?: AbortSignal) =>
    call<{ entries: PlacedEntry[]; total: number }>(["entries", "total"], "POST", `/transfers/${id}/entries`, { entries, first, seal }, signal),
  entries: (id: string, from: number, limit: number, signal?: AbortSignal) =>
    call<EntryPage>(["entries", "total"], "GET", `/transfers/${id}/entries?from=${from}&limit=${limit}`, undefined, signal),
  fail: (id: string, failures: Failure[]) => call<Transfer>(TRANSFER, "POST", `/transfers/${id}/failures`, { failures }),
  /** The blocks that the depot has. */
  present: async (id: string, signal?: AbortSignal): Promise<BlockRun[]> => {
    const { received, durable } = await call<Extents>(["received", "durable"], "GET", `/transfers/${id}/extents`, undefined, signal);
    return [...durable, ...received];
  },
  /** With `wait` the depot waits so many seconds at most for what is under way. */
  finish: (id: string, wait = 0, signal?: AbortSignal) =>
    call<Transfer>(TRANSFER, "POST", `/transfers/${id}/finish${wait > 0 ? `?wait=${wait}` : ""}`, undefined, signal, FINISH_SILENCE),

  openLink: (id: string, secret: string) => call<Transfer>(TRANSFER, "POST", `/links/${id}/open`, { secret }),
};
