/** Whether somebody is signed in, and as whom, as far as the depot's answers tell. */
import { Observable } from "../observable";
import type { Scope, SessionInfo } from "./types";

/** What a depot keeps transfers for where nobody has set another time. */
const USUAL_DAYS = 30;
/** Scopes that show what others send. */
const SEE_OTHERS: readonly Scope[] = ["own", "receive"];
/** Scopes that send. */
const SEND: readonly Scope[] = ["own", "send"];

/**
 * | state | on | becomes |
 * |---|---|---|
 * | unknown | `handleAccepted` or `handleSignedIn` / `handleRefused` | in / out |
 * | in | `handleRefused` / `handleSignedOut` | ended / out |
 * | out, ended | `handleAccepted` or `handleSignedIn` | in |
 *
 * What refuses a request that began before the latest of these says nothing of the session that there is now.
 */
export type SessionState = "unknown" | "in" | "ended" | "out";

class Session extends Observable {
  state: SessionState = "unknown";
  #info: SessionInfo | null = null;
  #accepted = 0;
  /** A request since then was taken for the session's: the browser has its cookie. */
  #kept = true;

  /** How often the depot took a token or a session: a request remembers it as it begins. */
  get accepted(): number {
    return this.#accepted;
  }

  /** Who is signed in, or was last: an answer that depends on who asks is compared with it. */
  get holder(): string | null {
    if (!this.#info) return null;
    const { token, label, scopes } = this.#info;
    return token ?? JSON.stringify([label, scopes]);
  }

  /** How long the depot keeps a transfer unless it is asked otherwise. */
  get days(): number {
    return this.#info?.expires_in_days ?? USUAL_DAYS;
  }

  /** It ended before any request was taken for it: the browser keeps no cookie of the depot's. */
  get isCookieless(): boolean {
    return this.state === "ended" && !this.#kept;
  }

  /** Whether lists have transfers of others. */
  get seesOthers(): boolean {
    return this.#hasOneOf(SEE_OTHERS);
  }

  /** Whether the depot would take anything. */
  get maySend(): boolean {
    return this.#hasOneOf(SEND);
  }

  #hasOneOf(scopes: readonly Scope[]): boolean {
    return scopes.some((scope) => this.#info?.scopes.includes(scope));
  }

  /** The depot took the token, of which `info` tells, and gave a cookie. */
  handleSignedIn(info: SessionInfo): void {
    this.#accept(info, false);
  }

  /** The depot took a request that began when so many tokens and sessions had been `accepted`. */
  handleTaken(accepted: number): void {
    if (accepted === this.#accepted) this.#kept = true;
  }

  /** The depot took the session, of which `info` tells. */
  handleAccepted(info: SessionInfo): void {
    this.#accept(info, true);
  }

  #accept(info: SessionInfo, kept: boolean): void {
    this.#accepted++;
    this.#kept = kept;
    this.#info = info;
    this.state = "in";
    this.changed();
  }

  /** The depot answered that nobody is signed in: before anyone was, or because that has expired or was revoked. `accepted` is as the
   * request began. `false`: somebody has signed in since, so that the same request may succeed now. */
  handleRefused(accepted: number): boolean {
    if (accepted !== this.#accepted) return false;
    this.#become(this.state === "in" || this.state === "ended" ? "ended" : "out");
    return true;
  }

  handleSignedOut(): void {
    this.#become("out");
  }

  #become(state: SessionState): void {
    if (this.state === state) return;
    this.state = state;
    this.changed();
  }
}

/** A browser has one for each depot. */
export const session = new Session();
