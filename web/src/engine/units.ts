/** Bytes in a block of the address space. */
export const BLOCK_SIZE = 4 * 1024 * 1024;

/** An entry's position in the manifest. */
export type EntryIndex = number;
/** A block's position in the address space. */
export type BlockNumber = number;
/** A run of blocks: the first and how many. */
export type BlockRun = readonly [first: BlockNumber, count: number];
/** Milliseconds on a clock that only goes forward. */
export type Instant = number;

/** The block that holds `address`. Addresses exceed 32 bits, so no bit operations here. */
export function blockOf(address: number): BlockNumber {
  return Math.floor(address / BLOCK_SIZE);
}
