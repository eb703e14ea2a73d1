/**
 * What each block of a transfer holds, learnt from the addresses that the depot gave to its entries.
 *
 * A file of a block or more has blocks of its own. Smaller ones share a block, end to end, and the last shared block
 * is open (it may still grow, so it must not be sent) until a later one is begun or the manifest is sealed.
 */
import { BLOCK_SIZE, type BlockNumber, type BlockRun, type EntryIndex, blockOf } from "./units";

export interface PackedFile {
  readonly entry: EntryIndex;
  readonly length: number;
}

/** What a block holds: a piece of one large file, or whole small files. */
export type BlockShape =
  | { readonly kind: "piece"; readonly entry: EntryIndex; readonly offset: number; readonly length: number; readonly fileSize: number }
  | { readonly kind: "packed"; readonly files: readonly PackedFile[]; readonly length: number };

interface LargeRegion {
  readonly kind: "large";
  readonly block: BlockNumber;
  readonly entry: EntryIndex;
  readonly size: number;
}

interface PackedRegion {
  readonly kind: "packed";
  readonly block: BlockNumber;
  readonly files: PackedFile[];
  length: number;
}

export class AddressSpace {
  readonly #regions: (LargeRegion | PackedRegion)[] = [];
  readonly #regionOfEntry = new Map<EntryIndex, number>();
  #open: PackedRegion | null = null;
  #blocks = 0;

  /** Places an entry that has bytes. Returns the blocks that may be sent from now on. */
  append(entry: EntryIndex, address: number, size: number): BlockRun[] {
    const block = blockOf(address);
    if (size >= BLOCK_SIZE) {
      const count = Math.ceil(size / BLOCK_SIZE);
      this.#add({ kind: "large", block, entry, size }, entry);
      this.#blocks = Math.max(this.#blocks, block + count);
      return [[block, count]];
    }
    const file = { entry, length: size };
    if (this.#open?.block === block) {
      this.#open.files.push(file);
      this.#open.length += size;
      this.#regionOfEntry.set(entry, this.#regionAt(block));
      return [];
    }
    const closed = this.seal();
    this.#open = { kind: "packed", block, files: [file], length: size };
    this.#add(this.#open, entry);
    this.#blocks = Math.max(this.#blocks, block + 1);
    return closed;
  }

  /** No later file joins the open block. Returns it when there was one. */
  seal(): BlockRun[] {
    const closed: BlockRun[] = this.#open ? [[this.#open.block, 1]] : [];
    this.#open = null;
    return closed;
  }

  get blockCount(): number {
    return this.#blocks;
  }

  /** Bytes in use of `block`. */
  length(block: BlockNumber): number {
    const region = this.#region(block);
    if (region.kind === "packed") return region.length;
    return Math.min(BLOCK_SIZE, region.size - (block - region.block) * BLOCK_SIZE);
  }

  shape(block: BlockNumber): BlockShape {
    const region = this.#region(block);
    if (region.kind === "packed") return { kind: "packed", files: region.files, length: region.length };
    const offset = (block - region.block) * BLOCK_SIZE;
    const length = Math.min(BLOCK_SIZE, region.size - offset);
    return { kind: "piece", entry: region.entry, offset, length, fileSize: region.size };
  }

  /** The blocks that hold bytes of `entry`; `null` for one without bytes. */
  blocksOf(entry: EntryIndex): BlockRun | null {
    const at = this.#regionOfEntry.get(entry);
    const region = at === undefined ? undefined : this.#regions[at];
    if (!region) return null;
    return [region.block, region.kind === "large" ? Math.ceil(region.size / BLOCK_SIZE) : 1];
  }

  #add(region: LargeRegion | PackedRegion, entry: EntryIndex): void {
    this.#regionOfEntry.set(entry, this.#regions.length);
    this.#regions.push(region);
  }

  #region(block: BlockNumber): LargeRegion | PackedRegion {
    const region = this.#regions[this.#regionAt(block)];
    if (!region || block >= this.#blocks) throw new RangeError(`block ${block} is not part of the transfer`);
    return region;
  }

  /** Regions are in order of their first block: the last that begins at or before `block`. */
  #regionAt(block: BlockNumber): number {
    let low = 0;
    let high = this.#regions.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#regions[middle]!.block <= block) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }
}
