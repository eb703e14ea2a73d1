/** How far the sending of a transfer is: a state machine without I/O. */

export type Phase = "beginning" | "declaring" | "sending" | "finishing" | "done" | "stopped" | "closed";

/** From where each step leads where. Anywhere else it comes too late, and changes nothing. */
const STEPS = {
  /** The depot has made the transfer. */
  begun: { beginning: "declaring" },
  /** It has been told of all that comes. */
  declared: { declaring: "sending" },
  /** It has every block, as far as anybody knows. */
  delivered: { sending: "finishing" },
  /** It turned out not to have some. */
  lacking: { finishing: "sending" },
  /** It has finished the transfer, as it was asked to from here, or from elsewhere. */
  finished: { declaring: "done", sending: "done", finishing: "done", stopped: "done" },
  /** It says no, or this device cannot go on, and trying again by itself would not help. */
  refused: { declaring: "stopped", sending: "stopped", finishing: "stopped" },
  /** Somebody has it tried again: the depot has yet to be told of some of what comes. */
  resumed: { stopped: "declaring" },
  /** The same, where it has been told of all. */
  resumedSealed: { stopped: "sending" },
  /** The transfer is over here, and not finished: also where it could not even be begun. */
  closed: { beginning: "closed", declaring: "closed", sending: "closed", finishing: "closed", stopped: "closed" },
} as const satisfies Record<string, Partial<Record<Phase, Phase>>>;

export type Step = keyof typeof STEPS;

/** The phase that `step` leads to from `phase`. */
export function phaseAfter(phase: Phase, step: Step): Phase {
  const leads: Partial<Record<Phase, Phase>> = STEPS[step];
  return leads[phase] ?? phase;
}
