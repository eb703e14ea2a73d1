/** Whether the owner is signed in, as far as the depot's answers tell. */
import { Observable } from "../observable";

/**
 * | state | on | becomes |
 * |---|---|---|
 * | unknown | `handleAccepted` / `handleRefused` | in / out |
 * | in | `handleRefused` / `handleSignedOut` | ended / out |
 * | out, ended | `handleAccepted` | in |
 */
export type SessionState = "unknown" | "in" | "ended" | "out";

class Session extends Observable {
  state: SessionState = "unknown";

  /** The depot took the token or the session. */
  handleAccepted(): void {
    this.#become("in");
  }

  /** The depot answered that nobody is signed in: before anyone was, or because that has expired or was revoked. */
  handleRefused(): void {
    this.#become(this.state === "in" || this.state === "ended" ? "ended" : "out");
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
