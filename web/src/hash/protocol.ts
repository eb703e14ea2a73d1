/** Messages between the page and its hash workers. */

/** What to hash of a block: a piece of a large file, or the lengths of the files packed in it. */
export type BlockTask =
  | { readonly length: number; readonly offset: number; readonly fileSize: number }
  | { readonly length: number; readonly files: readonly number[] };

export interface HashRequest {
  readonly id: number;
  /** The blocks' bytes, end to end. */
  readonly bytes: Blob | ArrayBuffer;
  readonly blocks: readonly BlockTask[];
  /** Also give back what was read of a `Blob`. */
  readonly keep?: boolean;
}

/** Merges the values of all of a large file's blocks into its hash. */
export interface MergeRequest {
  readonly id: number;
  readonly merge: readonly string[];
}

export interface HashedBlock {
  readonly value: string;
  /** The hash of each packed file. */
  readonly files?: readonly string[];
}

/** The first message of a worker: it has its script, and BLAKE3 runs. */
export const STARTED = "started";
/** The same, and the browser does not run WebAssembly. */
export const NO_WEBASSEMBLY = "no WebAssembly";

/** What a worker says unasked. */
export type Start = typeof STARTED | typeof NO_WEBASSEMBLY;

export type HashAnswer =
  | { readonly id: number; readonly blocks: HashedBlock[]; readonly bytes: ArrayBuffer[] }
  | { readonly id: number; readonly merged: string }
  | { readonly id: number; readonly error: string };
