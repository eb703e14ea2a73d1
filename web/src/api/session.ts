/** Whether somebody is signed in, and as whom, as far as the depot's answers tell. */
import { Observable } from "../observable";
import type { Scope, SessionInfo } from "./types";

/** What a depot keeps transfers for where nobody has set another time. */
const USUAL_DAYS = 30;
/** Scopes that show what others send. */
const SEE_OTHERS: readonly Scope[] = ["own", "receive"];

/**
 * | state | on | becomes |
 * |---|---|---|
 * | unknown | `handleAccepted` / `handleRefused` | in / out |
 * | in | `handleRefused` / `handleSignedOut` | ended / out |
 * | out, ended | `handleAccepted` | in |
 *
 * What refuses a request that began before the latest `handleAccepted` says nothing of the session that there is now.
 */
export type SessionState = "unknown" | "in" | "ended" | "out";

class Session extends Observable {
  state: SessionState = "unknown";
  #info: SessionInfo | null = null;
  #accepted = 0;

  /** How often the depot took a token or a session: a request remembers it as it begins. */
  get accepted(): number {
    return this.#accepted;
  }

  /** How long the depot keeps a transfer unless it is asked otherwise. */
  get days(): number {
    return this.#info?.expires_in_days ?? USUAL_DAYS;
  }

  /** Whether lists have transfers of others. */
  get seesOthers(): boolean {
    return SEE_OTHERS.some((scope) => this.#info?.scopes.includes(scope));
  }

  /** The depot took the token or the session, which are `info`. */
  handleAccepted(info: SessionInfo): void {
    this.#accepted++;
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
