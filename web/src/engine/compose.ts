/** A chunk's body as slices of files, in the order of their addresses: nothing is read or copied here. */
import type { AddressSpace } from "./address_space";
import type { BlockRun, EntryIndex } from "./units";

export type Part =
  | { readonly kind: "slice"; readonly entry: EntryIndex; readonly start: number; readonly end: number }
  /** Stands in for an entry that failed, whose neighbours in the block are still sent. */
  | { readonly kind: "zeros"; readonly length: number };

export function compose(space: AddressSpace, [first, count]: BlockRun, failed: (entry: EntryIndex) => boolean): Part[] {
  const parts: Part[] = [];
  const push = (entry: EntryIndex, start: number, length: number) => {
    const last = parts.at(-1);
    if (failed(entry)) {
      parts.push({ kind: "zeros", length });
    } else if (last?.kind === "slice" && last.entry === entry && last.end === start) {
      parts[parts.length - 1] = { ...last, end: start + length };
    } else {
      parts.push({ kind: "slice", entry, start, end: start + length });
    }
  };
  for (let block = first; block < first + count; block++) {
    const shape = space.shape(block);
    if (shape.kind === "piece") push(shape.entry, shape.offset, shape.length);
    else for (const file of shape.files) push(file.entry, 0, file.length);
  }
  return parts;
}
