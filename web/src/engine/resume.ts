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
  /** Seconds since 1970 and the rest in nanoseconds; a browser only sees whole milliseconds, or whole seconds (Safari). */
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
  /** What was a folder above them is a file now: the two cannot both arrive, whatever is there of them. */
  readonly displaced: ManifestEntry[];
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
  const matched: Matched<Chosen> = { known: [], added: [], changed: [], missing: [], displaced: [], replaced: new Set() };
  const files = new Set<string>();
  for (const found of chosen) {
    const known = unmet.get(found.path);
    unmet.delete(found.path);
    if (found.kind !== "directory") files.add(found.path);
    if (!known) {
      matched.added.push(found);
    } else if (sameContent(known, found)) {
      matched.known.push({ entry: known.entry, chosen: found });
    } else {
      matched.changed.push(known);
      matched.added.push(found);
    }
  }
  for (const entry of unmet.values()) {
    if (isBelow(entry.path, files)) matched.displaced.push(entry);
    else if (entry.state === "pending") matched.missing.push(entry);
  }
  for (const { entry } of [...matched.changed, ...matched.displaced]) matched.replaced.add(entry);
  const added = new Set(matched.added.map(({ path }) => path));
  for (const { entry, path, state, superseded } of manifest) {
    if (state === "failed" && (superseded || added.has(path) || isBelow(path, files))) matched.replaced.add(entry);
  }
  return matched;
}

/** Whether one of `files` is in the place of a folder above `path`. */
function isBelow(path: string, files: ReadonlySet<string>): boolean {
  for (let at = path.indexOf("/"); at > 0; at = path.indexOf("/", at + 1)) if (files.has(path.slice(0, at))) return true;
  return false;
}

/** Whether nothing that was chosen is part of the transfer: to add it would leave all that is wanted as it is. Folders do not tell, as
 * any two may share a name. What has no file yet, as its sender was gone too soon, may be of any. */
export function isForeign(manifest: readonly ManifestEntry[], { known, changed, added }: Matched<Identity>): boolean {
  if (!manifest.some(({ kind }) => kind !== "directory")) return false;
  if (changed.length > 0 || known.some(({ chosen }) => chosen.kind === "file")) return false;
  const failed = new Set(manifest.flatMap(({ path, state }) => (state === "failed" ? [path] : [])));
  return !added.some(({ path }) => failed.has(path));
}

/** A picker gives a file without the folder that it is in. One that has the name of exactly one file that is lost, and is nothing else in
 * the transfer, is that one. */
export function atLostPaths<Chosen extends Identity>(manifest: readonly ManifestEntry[], chosen: readonly Chosen[]): Chosen[] {
  const inManifest = new Set(manifest.map(({ path }) => path));
  const lost = new Map<string, string | null>();
  for (const entry of manifest) {
    if (!isLost(entry) || entry.kind !== "file") continue;
    const name = entry.path.slice(entry.path.lastIndexOf("/") + 1);
    const known = lost.get(name);
    lost.set(name, known === undefined || known === entry.path ? entry.path : null);
  }
  const chosenPaths = new Set(chosen.map(({ path }) => path));
  return chosen.map((found) => {
    const path = found.kind === "file" && !inManifest.has(found.path) ? lost.get(found.path) : null;
    return path && !chosenPaths.has(path) ? { ...found, path } : found;
  });
}

/** Whether an open transfer lacks nothing: the depot was told of all, and has all but what failed. */
export function isWhole(manifest: readonly ManifestEntry[], { state, sealed }: { readonly state: string; readonly sealed: boolean }): boolean {
  return state === "open" && sealed && manifest.length > 0 && manifest.every(({ state }) => state !== "pending");
}

/** As far as can be told without reading it. */
export function sameContent(a: Identity, b: Identity): boolean {
  if (a.kind !== b.kind) return false;
  if (a.kind === "directory") return true;
  return a.size === b.size && a.mtime === b.mtime && sameRest(a.mtime_nanos, b.mtime_nanos);
}

/** Of a second: one browser tells milliseconds, another none, and a file that the command line began with has nanoseconds. */
function sameRest(a: number, b: number): boolean {
  return a === 0 || b === 0 || milliseconds(a) === milliseconds(b);
}

function milliseconds(nanos: number): number {
  return Math.floor(nanos / 1_000_000);
}
