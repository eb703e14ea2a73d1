import { session } from "../api/session";

/** What the list of transfers is called for whoever is signed in. */
export function transfersTitle(): string {
  return session.seesOthers ? "Transfers" : "My transfers";
}
