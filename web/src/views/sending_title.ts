/** What the title says while a transfer is being sent. It is all that is seen of a tab in the background. */
import type { Phase } from "../engine/sending_phase";
import { hinderedTitle } from "./hindered";

export interface SendingState {
  readonly phase: Phase;
  readonly paused: boolean;
  readonly reachable: boolean;
  /** The code of what keeps it trying again, or `null`. */
  readonly hindrance: string | null;
}

/** In the order in which the view says them: what is not tried again comes first. */
export function sendingTitle({ phase, paused, reachable, hindrance }: SendingState, share: number): string {
  if (phase === "stopped") return "Stopped";
  if (reachable && paused) return "Paused";
  if (reachable && hindrance === null) return `${share} %`;
  return hinderedTitle(hindrance);
}
