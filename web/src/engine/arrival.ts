/** How much of what is being received is here, and how fast it comes. Time is an argument. */
import { share } from "./share";
import { Speedometer } from "./speedometer";
import type { Instant } from "./units";

export interface ArrivalFigures {
  /** Bytes that are here: those that are still to be proven, too. */
  readonly received: number;
  /** In 0..1; 1 when all of it is proven. */
  readonly share: number;
  readonly bytesPerSecond: number | null;
  readonly secondsLeft: number | null;
}

export class Arrival {
  /** Bytes whose hash was right, or that were here before. */
  #proven = 0;
  /** Bytes that came and whose hash is not known yet. */
  #unproven = 0;
  /** Bytes that came over the line, for whatever became of them. */
  #heard = 0;
  readonly #speed = new Speedometer();

  constructor(readonly total: number) {}

  /** So many bytes came. */
  handleHeard(bytes: number): void {
    this.#heard += bytes;
    this.#unproven += bytes;
  }

  /** Of those that came, so many are no longer to be proven: they were right, or are of no use. */
  handleSettled(bytes: number, right: boolean): void {
    this.#unproven -= bytes;
    if (right) this.#proven += bytes;
  }

  /** So many were here before. */
  handleFound(bytes: number): void {
    this.#proven += bytes;
  }

  /** Nothing more comes, and what is not proven by now is of no use. */
  handleEnd(): void {
    this.#unproven = 0;
  }

  /** The figures to show now. */
  figures(now: Instant): ArrivalFigures {
    this.#speed.handleTotal(now, this.#heard);
    const received = this.#proven + this.#unproven;
    return {
      received,
      share: share(this.#proven, this.#unproven, this.total),
      bytesPerSecond: this.#speed.rate,
      secondsLeft: received < this.total ? this.#speed.secondsFor(this.total - received) : null,
    };
  }
}
