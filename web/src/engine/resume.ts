/**
 * Matching the files that were chosen now with what the depot's manifest already says.
 *
 * The manifest is append-only. An entry that is as it was keeps its place and its durable blocks are not sent again;
 * one that changed fails, by name, and what is there now is appended as a new entry.
 */
import type { EntryIndex } from "./units";

export type EntryKind = "file" | "directory" | "symlink";

/** What two entries must share to be the same content. */
export interface Identity {
  readonly path: string;
  readonly kind: EntryKind;
  readonly size: number;
  /** Seconds since 1970 and the rest in nanoseconds; a browser only sees whole milliseconds. */
  readonly mtime: number;
  readonly mtime_nanos: number;
}

export interface ManifestEntry extends Identity {
  readonly entry: EntryIndex;
  readonly state: "pending" | "complete" | "failed";
  /** It failed, and a later entry of the same path has taken its place. */
  readonly superseded?: boolean;
}

/** It failed, and no other entry stands for it. */
export function isLost({ state, superseded }: Pick<ManifestEntry, "state" | "superseded">): boolean {
  return state === "failed" && superseded !== true;
}

export interface Matched<Chosen extends Identity> {
  /** Unchanged: the entry's place and the file to read it from. */
  readonly known: { readonly entry: EntryIndex; readonly chosen: Chosen }[];
  /** To be appended. */
  readonly added: Chosen[];
  /** No longer the same: these fail, and the new content is among `added`. */
  readonly changed: ManifestEntry[];
  /** Unfinished in the manifest and not chosen. */
  readonly missing: ManifestEntry[];
  /** Whatever failed, or fails now, and is no loss: another entry of the same path stands for it. */
  readonly replaced: Set<EntryIndex>;
}

export function match<Chosen extends Identity>(manifest: readonly ManifestEntry[], chosen: Iterable<Chosen>): Matched<Chosen> {
  // A later entry of the same path stands for an earlier one.
  const unmet = new Map<string, ManifestEntry>();
  for (const entry of manifest) {
    if (entry.state === "failed") unmet.delete(entry.path);
    else unmet.set(entry.path, entry);
  }
  const matched: Matched<Chosen> = { known: [], added: [], changed: [], missing: [], replaced: new Set() };
  for (const found of chosen) {
    const known = unmet.get(found.path);
    unmet.delete(found.path);
    if (!known) {
      matched.added.push(found);
    } else if (sameContent(known, found)) {
      matched.known.push({ entry: known.entry, chosen: found });
    } else {
      matched.changed.push(known);
      matched.added.push(found);
    }
  }
  for (const entry of unmet.values()) if (entry.state === "pending") matched.missing.push(entry);
  for (const { entry } of matched.changed) matched.replaced.add(entry);
  const added = new Set(matched.added.map(({ path }) => path));
  for (const { entry, path, state, superseded } of manifest) {
    if (state === "failed" && (superseded || added.has(path))) matched.replaced.add(entry);
  }
  return matched;
}

/** As far as can be told without reading it. */
export function sameContent(a: Identity, b: Identity): boolean {
  if (a.kind !== b.kind) return false;
  if (a.kind === "directory") return true;
  return a.size === b.size && a.mtime === b.mtime && milliseconds(a) === milliseconds(b);
}

function milliseconds(entry: Identity): number {
  return Math.floor(entry.mtime_nanos / 1_000_000);
}
