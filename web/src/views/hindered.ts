/** What is said while something is tried again. */
import type { DepotError } from "../api/error";

/** Codes of what is not the depot's own answer. It says whose it is. */
const NOT_ITS_OWN = /^http_|^bad_answer$|^short_answer$/;

/** What keeps the page trying again: `null` is a depot that does not answer. */
export function hindered(hindrance: Pick<DepotError, "code" | "message"> | null): string {
  if (!hindrance || hindrance.code === "network") return "Connection lost. Trying again…";
  const says = hindrance.message.replace(/\.$/, "");
  return `${NOT_ITS_OWN.test(hindrance.code) ? "" : "The depot answers: "}${says}. Trying again…`;
}

/** The same in a title, of its code. */
export function hinderedTitle(code: string | null): string {
  return code === null || code === "network" ? "Connection lost" : "Trying again";
}
