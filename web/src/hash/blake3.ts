/** BLAKE3 over WebAssembly (`blake3/blake3.ts`), and what the transfer protocol makes of it. */
import { BLOCK_SIZE } from "../engine/units";

interface Exports {
  readonly memory: WebAssembly.Memory;
  input(): number;
  output(): number;
  key(): number;
  use_iv(): void;
  hash(length: number, counter: bigint, mode: number, root: boolean): void;
  merge_pair(mode: number, root: boolean): void;
}

const CHUNK_LEN = 1024n;
const HASH_LEN = 32;
const DERIVE_KEY_CONTEXT = 32;
const DERIVE_KEY_MATERIAL = 64;
const PACKED_BLOCK_CONTEXT = "terahaul 1 packed block";

export class Blake3 {
  readonly #wasm: Exports;
  readonly #memory: Uint8Array;
  readonly #packedKey: Uint8Array;

  private constructor(wasm: Exports) {
    this.#wasm = wasm;
    this.#memory = new Uint8Array(wasm.memory.buffer);
    wasm.use_iv();
    this.#packedKey = this.#run(new TextEncoder().encode(PACKED_BLOCK_CONTEXT), 0n, DERIVE_KEY_CONTEXT, true);
  }

  static async load(module: BufferSource): Promise<Blake3> {
    const { instance } = await WebAssembly.instantiate(module, {});
    return new Blake3(instance.exports as unknown as Exports);
  }

  /** The hash of a whole file of at most a block. */
  file(bytes: Uint8Array): Uint8Array {
    return this.#run(bytes, 0n, 0, true);
  }

  /** The value of a piece: a subtree's chaining value, or the file's hash when the file is one block long. */
  piece(bytes: Uint8Array, offset: number, fileSize: number): Uint8Array {
    return this.#run(bytes, BigInt(offset) / CHUNK_LEN, 0, fileSize <= BLOCK_SIZE);
  }

  /** The hash of each packed file. */
  packed(bytes: Uint8Array, lengths: readonly number[]): Uint8Array[] {
    let at = 0;
    return lengths.map((length) => this.file(bytes.subarray(at, (at += length))));
  }

  /** The value of a packed block: a hash over its files' hashes. */
  packedValue(files: readonly Uint8Array[]): Uint8Array {
    const all = new Uint8Array(files.length * HASH_LEN);
    files.forEach((hash, at) => all.set(hash, at * HASH_LEN));
    this.#memory.set(this.#packedKey, this.#wasm.key());
    const value = this.#run(all, 0n, DERIVE_KEY_MATERIAL, true);
    this.#wasm.use_iv();
    return value;
  }

  /** A large file's hash from the values of all of its blocks, in order. */
  fileFromPieces(values: readonly Uint8Array[]): Uint8Array {
    if (values.length === 1) return values[0]!;
    let level = [...values];
    // Neighbours pair up and an odd one is carried: the same tree as splitting at the largest power of two.
    while (level.length > 2) {
      const next: Uint8Array[] = [];
      for (let at = 0; at < level.length; at += 2) {
        const right = level[at + 1];
        next.push(right ? this.#merge(level[at]!, right, false) : level[at]!);
      }
      level = next;
    }
    return this.#merge(level[0]!, level[1]!, true);
  }

  #run(bytes: Uint8Array, counter: bigint, mode: number, root: boolean): Uint8Array {
    this.#memory.set(bytes, this.#wasm.input());
    this.#wasm.hash(bytes.length, counter, mode, root);
    return this.#output();
  }

  #merge(left: Uint8Array, right: Uint8Array, root: boolean): Uint8Array {
    this.#memory.set(left, this.#wasm.input());
    this.#memory.set(right, this.#wasm.input() + HASH_LEN);
    this.#wasm.merge_pair(0, root);
    return this.#output();
  }

  #output(): Uint8Array {
    const at = this.#wasm.output();
    return this.#memory.slice(at, at + HASH_LEN);
  }
}
