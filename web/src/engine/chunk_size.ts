/** How many bytes one request should carry, so that it takes a few seconds: long enough that its overhead does not
 * count, short enough that losing one costs little. */
import { BLOCK_SIZE } from "./units";

const SMALLEST = BLOCK_SIZE;
const LARGEST = 32 * BLOCK_SIZE;
const AIM_SECONDS = 3;
/** Between two requests a connection is idle for a round trip: so many of them one request should take. */
const AIM_ROUND_TRIPS = 50;
/** What a request begins with, at most, where a round trip is so long that small ones would be mostly that. */
const START_LONG = 8 * BLOCK_SIZE;
/** Among how many requests the last bytes are shared out. */
const SHARED_BY = 3;

export class ChunkSize {
  #bytes = 2 * BLOCK_SIZE;
  #aim = AIM_SECONDS;
  readonly #fixed: boolean;

  /** `fixed` is so many bytes for every request, whatever is measured; in whole blocks, as blocks are never cut. */
  constructor(fixed?: number) {
    this.#fixed = fixed !== undefined;
    if (fixed !== undefined) this.#set(fixed);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The same for a request that is one of the last, with `left` bytes to go: they are shared out, so that all
   * requests finish together. */
  bytesOf(left: number): number {
    const share = Math.ceil(left / SHARED_BY / BLOCK_SIZE) * BLOCK_SIZE;
    return this.#fixed ? this.#bytes : Math.min(this.#bytes, share);
  }

  /** How long a round trip takes, as soon as that is known. */
  handleRoundTrip(milliseconds: number): void {
    if (this.#fixed) return;
    this.#aim = Math.max(AIM_SECONDS, (AIM_ROUND_TRIPS * milliseconds) / 1000);
    if (milliseconds >= 50) this.#bytes = Math.max(this.#bytes, START_LONG);
  }

  /** A request carried `bytes` in `milliseconds`. One step at most doubles or halves the size. */
  handleDelivered(bytes: number, milliseconds: number): void {
    // A short last chunk says little about how long a full one takes.
    if (this.#fixed || bytes < this.#bytes / 2) return;
    const wish = (bytes / Math.max(milliseconds, 1)) * 1000 * this.#aim;
    this.#set(Math.min(Math.max(wish, this.#bytes / 2), this.#bytes * 2));
  }

  /** A request was cut off: what is in the way may not let large ones through. */
  handleLost(): void {
    if (!this.#fixed) this.#set(this.#bytes / 2);
  }

  #set(bytes: number): void {
    const whole = Math.round(bytes / BLOCK_SIZE) * BLOCK_SIZE;
    this.#bytes = Math.min(Math.max(whole, SMALLEST), LARGEST);
  }
}
