/**
 * How many bytes one request should carry.
 *
 * | round trip | so many | because |
 * |---|---|---|
 * | short | as go in three seconds | its overhead does not count, and losing one costs little |
 * | long | as go in a quarter of a second or six round trips; two blocks, unless these take three seconds | after each request its connection is idle for a round trip, while others fill the line: with requests of six round trips one of six is, and together they have no more under way than the line's queue takes; with longer ones they overflow it, and with shorter ones too few are left now and then to fill the line |
 *
 * In the end they are so small that all connections finish together.
 */
import { LONG } from "./channel_count";
import { BLOCK_SIZE } from "./units";

const SMALLEST = BLOCK_SIZE;
const START = 2 * BLOCK_SIZE;
/** A request's bytes are in memory until they are on their way, and there may be eight requests, and one to come. */
const LARGEST = 8 * BLOCK_SIZE;
/** With `fixed`, which is for measuring. */
const LARGEST_FIXED = 32 * BLOCK_SIZE;
const AIM_SECONDS = 3;
const AIM_SECONDS_LONG = 0.25;
const AIM_ROUND_TRIPS = 6;
/** Connections compete, and take very different times: so many requests are averaged. */
const LATELY = 8;
/** Of a request's equal share of all that is left, so much: connections differ, and a fast one can take another. */
const OF_SHARE = 0.7;

export class ChunkSize {
  #bytes = START;
  #aim = AIM_SECONDS;
  /** So many it should be, if they do not take longer than three seconds. */
  #floor = SMALLEST;
  /** Bytes a second of a request, lately. */
  #rate = 0;
  readonly #fixed: boolean;

  /** `fixed` is so many bytes for every request, whatever is measured; in whole blocks, as blocks are never cut. */
  constructor(fixed?: number) {
    this.#fixed = fixed !== undefined;
    if (fixed !== undefined) this.#bytes = whole(fixed, LARGEST_FIXED);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** How many bytes the next request should carry: one of `requests`, which have `left` bytes to send in all, those
   * under way included. */
  next(left: number, requests: number): number {
    if (this.#fixed) return this.#bytes;
    return Math.min(this.#bytes, whole((left / requests) * OF_SHARE));
  }

  /** How long a round trip takes, as soon as that is known. */
  handleRoundTrip(milliseconds: number): void {
    if (this.#fixed || milliseconds < LONG) return;
    this.#aim = Math.max(AIM_SECONDS_LONG, (AIM_ROUND_TRIPS * milliseconds) / 1000);
    this.#floor = START;
  }

  /** A request carried `bytes` in `milliseconds`. One step at most doubles or halves the size. */
  handleDelivered(bytes: number, milliseconds: number): void {
    // A short last chunk says little about how long a full one takes.
    if (this.#fixed || bytes < this.#bytes / 2) return;
    const rate = (bytes / Math.max(milliseconds, 1)) * 1000;
    this.#rate += (rate - this.#rate) / (this.#rate === 0 ? 1 : LATELY);
    const wish = Math.max(this.#rate * this.#aim, Math.min(this.#floor, this.#rate * AIM_SECONDS));
    this.#set(Math.min(Math.max(wish, this.#bytes / 2), this.#bytes * 2));
  }

  /** A request was cut off: what is in the way may not let large ones through. */
  handleLost(): void {
    if (!this.#fixed) this.#set(this.#bytes / 2);
  }

  #set(bytes: number): void {
    this.#bytes = whole(bytes, LARGEST);
  }
}

function whole(bytes: number, most = Infinity): number {
  const blocks = Math.round(bytes / BLOCK_SIZE) * BLOCK_SIZE;
  return Math.min(Math.max(blocks, SMALLEST), most);
}
