/** What the title says while a transfer is being received. It is all that is seen of a tab in the background. */
import type { Receiver } from "../receive/receiver";
import { hinderedTitle } from "./hindered";

export interface ReceivingState {
  readonly phase: Receiver["phase"];
  /** The code of what keeps it trying again, or `null`. */
  readonly hindrance: string | null;
  /** How many files are here, all of them proven. */
  readonly files: number;
  /** How much was not saved. */
  readonly failures: number;
}

export function receivingTitle({ phase, hindrance, files, failures }: ReceivingState, share: number): string {
  if (phase === "asking") return "Waiting for an answer";
  if (phase === "stopped") return "Stopped";
  if (phase === "done") return failures === 0 ? "Received" : files > 0 ? "Partly received" : "Not received";
  return hindrance === null ? `${share} %` : hinderedTitle(hindrance);
}
