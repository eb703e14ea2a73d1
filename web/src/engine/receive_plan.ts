/** What to ask the depot for, to fetch a transfer's files in few requests of bounded size. */
import type { EntryKind } from "./resume";
import { BLOCK_SIZE, type EntryIndex, blockOf } from "./units";

/** Most of a large file that is asked for, or read, at once: a few of these are in memory at a time. */
const PIECE = 4 * BLOCK_SIZE;

export interface Wanted {
  readonly entry: EntryIndex;
  readonly kind: EntryKind;
  readonly size: number;
  readonly address: number | null;
}

export type Job =
  /** Small files that lie end to end in one block. */
  | { readonly kind: "packed"; readonly address: number; readonly length: number; readonly files: Wanted[] }
  /** Whole blocks of one large file. */
  | { readonly kind: "pieces"; readonly file: Wanted; readonly offset: number; readonly length: number }
  /** A file without bytes. */
  | { readonly kind: "empty"; readonly file: Wanted };

/** A file of `size` bytes in pieces of whole blocks, none too large for memory. */
export function* pieces(size: number): Generator<{ readonly offset: number; readonly length: number }> {
  for (let offset = 0; offset < size; offset += PIECE) yield { offset, length: Math.min(PIECE, size - offset) };
}

/** A run of several small files as two. */
export function halves({ address, length, files }: Job & { kind: "packed" }): (Job & { kind: "packed" })[] {
  const middle = files.length >> 1;
  const first = files.slice(0, middle);
  const before = first.reduce((sum, { size }) => sum + size, 0);
  return [
    { kind: "packed", address, length: before, files: first },
    { kind: "packed", address: address + before, length: length - before, files: files.slice(middle) },
  ];
}

/** `entries` in manifest order. */
export function* receivePlan(entries: Iterable<Wanted>): Generator<Job> {
  let packed: { kind: "packed"; address: number; length: number; files: Wanted[] } | null = null;
  for (const file of entries) {
    if (file.kind !== "file") continue;
    if (file.address === null) {
      yield { kind: "empty", file };
    } else if (file.size >= BLOCK_SIZE) {
      for (const piece of pieces(file.size)) yield { kind: "pieces", file, ...piece };
    } else if (packed && packed.address + packed.length === file.address && blockOf(packed.address) === blockOf(file.address)) {
      packed.files.push(file);
      packed.length += file.size;
    } else {
      if (packed) yield packed;
      packed = { kind: "packed", address: file.address, length: file.size, files: [file] };
    }
  }
  if (packed) yield packed;
}
