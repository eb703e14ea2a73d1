/** One byte a block: where each stands on its way to the depot. */
import type { BlockNumber, BlockRun } from "./units";

export const BlockState = {
  /** Not declared yet, or may still grow. */
  Open: 0,
  /** May be sent. */
  Pending: 1,
  /** In a chunk that is on its way, or waits for another try. */
  Taken: 2,
  /** The depot has it. */
  Done: 3,
  /** Holds nothing but entries that failed: never sent. */
  Void: 4,
} as const;
export type BlockState = (typeof BlockState)[keyof typeof BlockState];

export class BlockStates {
  #states = new Uint8Array(1024);
  /** No block below this one is pending. */
  #firstPending = 0;
  #end = 0;

  of(block: BlockNumber): BlockState {
    return (this.#states[block] ?? BlockState.Open) as BlockState;
  }

  set(block: BlockNumber, state: BlockState): void {
    if (block >= this.#states.length) {
      const grown = new Uint8Array(Math.max(block + 1, this.#states.length * 2));
      grown.set(this.#states);
      this.#states = grown;
    }
    this.#states[block] = state;
    this.#end = Math.max(this.#end, block + 1);
    if (state === BlockState.Pending) this.#firstPending = Math.min(this.#firstPending, block);
  }

  /** The first pending block. */
  nextPending(): BlockNumber | null {
    const at = this.#states.indexOf(BlockState.Pending, this.#firstPending);
    this.#firstPending = at < 0 ? this.#end : at;
    return at < 0 ? null : at;
  }

  /** The parts of `run` whose blocks satisfy `wanted`, in order. */
  runsOf([first, count]: BlockRun, wanted: (state: BlockState) => boolean): BlockRun[] {
    const runs: [number, number][] = [];
    for (let block = first; block < first + count; block++) {
      if (!wanted(this.of(block))) continue;
      const last = runs.at(-1);
      if (last && last[0] + last[1] === block) last[1]++;
      else runs.push([block, 1]);
    }
    return runs;
  }
}
