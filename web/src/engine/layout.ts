/** Where each entry of a manifest lies: what the depot will answer, so that reading need not wait for it. */
import { BLOCK_SIZE } from "./units";

const MAX_FILES_IN_BLOCK = 4096;

export class Layout {
  #blocks: number;
  #open: { block: number; used: number; count: number } | null = null;

  /** Behind so many blocks. */
  constructor(blocks = 0) {
    this.#blocks = blocks;
  }

  append(size: number): number | null {
    if (size === 0) return null;
    if (size >= BLOCK_SIZE) {
      const address = this.#blocks * BLOCK_SIZE;
      this.#blocks += Math.ceil(size / BLOCK_SIZE);
      return address;
    }
    if (!this.#open || this.#open.used + size > BLOCK_SIZE || this.#open.count >= MAX_FILES_IN_BLOCK) {
      this.#open = { block: this.#blocks++, used: 0, count: 0 };
    }
    const address = this.#open.block * BLOCK_SIZE + this.#open.used;
    this.#open.used += size;
    this.#open.count++;
    return address;
  }
}
