/** What going on with a transfer comes to, as it is shown before. */
import type { Entry } from "../api/types";
import { type Matched, atLostPaths, isForeign, isLost, match } from "../engine/resume";
import type { Chosen } from "./chosen";

export interface Prospect {
  readonly matched: Matched<Chosen>;
  /** Chosen without the folders they are in, and sent in the places of what did not arrive. */
  readonly moved: readonly Chosen[];
  /** What did not arrive, and is not chosen to be sent now. */
  readonly lost: readonly Entry[];
  /** Nothing that was chosen is part of the transfer. */
  readonly isAnother: boolean;
}

export function prospectOf(manifest: readonly Entry[], chosen: readonly Chosen[]): Prospect {
  const placed = atLostPaths(manifest, chosen);
  const matched = match(manifest, placed);
  return {
    matched,
    moved: placed.filter((one, at) => one !== chosen[at]),
    lost: manifest.filter((entry) => isLost(entry) && !matched.replaced.has(entry.entry)),
    isAnother: isForeign(manifest, matched),
  };
}

/** Whether whoever agreed to `a` has agreed to `b`, of the same choice: what is dropped, left out or sent elsewhere is the same. Which of
 * the chosen files the depot knows, or has, already is not for anybody to decide. */
export function looksSame(a: Prospect, b: Prospect): boolean {
  return a.isAnother === b.isAnother && listsOf(a).every((list, at) => samePaths(list, listsOf(b)[at]!));
}

type Named = Pick<Entry, "path">;

function listsOf({ matched, moved, lost }: Prospect): readonly (readonly Named[])[] {
  return [matched.changed, matched.displaced, matched.missing, moved, lost];
}

function samePaths(a: readonly Named[], b: readonly Named[]): boolean {
  const paths = new Set(a.map(({ path }) => path));
  return a.length === b.length && b.every(({ path }) => paths.has(path));
}
