/** Speed over the last seconds of a growing byte count, and the time left. */
import { ASLEEP } from "./asleep";
import type { Instant } from "./units";

const WINDOW = 5_000;

export class Speedometer {
  #samples: { at: Instant; total: number }[] = [];

  handleTotal(now: Instant, total: number): void {
    const last = this.#samples.at(-1);
    if (last && now - last.at > ASLEEP) this.reset();
    this.#samples.push({ at: now, total });
    while (this.#samples.length > 2 && now - this.#samples[1]!.at > WINDOW) this.#samples.shift();
  }

  /** Starts over, as after a pause. */
  reset(): void {
    this.#samples = [];
  }

  /** Bytes a second; `null` until it is known. */
  get rate(): number | null {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (!first || !last || last.at <= first.at || last.total <= first.total) return null;
    return ((last.total - first.total) / (last.at - first.at)) * 1000;
  }

  /** Seconds that `left` bytes take at the present speed. */
  secondsFor(left: number): number | null {
    const rate = this.rate;
    return rate ? left / rate : null;
  }
}
