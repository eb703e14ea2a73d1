/** A transfer before it begins. */
import { Selection } from "./selection";

export interface Draft {
  readonly selection: Selection;
  /** `null` while nobody has typed one: then what is chosen gives it. */
  readonly name: string | null;
  /** For how long it is kept: `null` while nobody has said, so that it is as the depot has it. */
  readonly days: number | null;
}

export function emptyDraft(): Draft {
  return { selection: new Selection(), name: null, days: null };
}
