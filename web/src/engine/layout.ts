/** Where each entry of a manifest lies: what the depot will answer, so that reading need not wait for it. */
import { BLOCK_SIZE } from "./units";

const MAX_FILES_IN_BLOCK = 4096;

export class Layout {
  #blocks = 0;
  #open: { block: number; used: number; count: number } | null = null;
  readonly lengths: number[] = [];

  append(size: number): number | null {
    if (size === 0) return null;
    if (size >= BLOCK_SIZE) {
      const address = this.#blocks * BLOCK_SIZE;
      for (let left = size; left > 0; left -= BLOCK_SIZE) this.lengths[this.#blocks++] = Math.min(left, BLOCK_SIZE);
      return address;
    }
    if (!this.#open || this.#open.used + size > BLOCK_SIZE || this.#open.count >= MAX_FILES_IN_BLOCK) {
      this.#open = { block: this.#blocks++, used: 0, count: 0 };
    }
    const address = this.#open.block * BLOCK_SIZE + this.#open.used;
    this.#open.used += size;
    this.#open.count++;
    this.lengths[this.#open.block] = this.#open.used;
    return address;
  }

  seal(): void {
    this.#open = null;
  }

  get blocks(): number {
    return this.#blocks;
  }

  get openBlock(): number | null {
    return this.#open?.block ?? null;
  }
}
