/** How many bytes one request should carry, so that it takes a few seconds: long enough that its overhead does not
 * count, short enough that losing one costs little. */
import { BLOCK_SIZE } from "./units";

const SMALLEST = BLOCK_SIZE;
/** A request's bytes are in memory until they are on their way, and there may be six requests, and one to come. */
const LARGEST = 8 * BLOCK_SIZE;
/** With `fixed`, which is for measuring. */
const LARGEST_FIXED = 32 * BLOCK_SIZE;
const AIM_SECONDS = 3;
/** Between two requests a connection is idle for a round trip: so many of them one request should take. */
const AIM_ROUND_TRIPS = 50;
/** What a request begins with, at most, where a round trip is so long that small ones would be mostly that. */
const START_LONG = LARGEST;
/** There the first requests are so much larger one than the other: a request's bytes are read before the first of them
 * goes out, and until all of six large ones are read the line would be idle. */
const START_STEP = BLOCK_SIZE;
/** From this round trip on, in milliseconds, requests are of different sizes. */
const LONG = 10;
/** Of a request's equal share of all that is left, so much: connections differ, and a fast one can take another. */
const OF_SHARE = 0.7;
/** Multiples of this, without their whole part, are never close to each other. */
const GOLDEN = 0.618_033_988_75;

export class ChunkSize {
  #bytes = 2 * BLOCK_SIZE;
  #aim = AIM_SECONDS;
  #spread = false;
  #taken = 0;
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
   * under way included. The last ones are so large that all requests finish together. On a long path sizes differ by
   * up to a half: connections that wait for answers at the same time would leave the line empty. */
  next(left: number, requests: number): number {
    if (this.#fixed) return this.#bytes;
    const share = Math.max((left / requests) * OF_SHARE, SMALLEST);
    return Math.min(whole(this.#wish(requests)), whole(share));
  }

  #wish(requests: number): number {
    if (!this.#spread) return this.#bytes;
    const at = ++this.#taken;
    return at <= requests ? START_STEP * at : this.#bytes * (0.5 + ((at * GOLDEN) % 1));
  }

  /** How long a round trip takes, as soon as that is known. */
  handleRoundTrip(milliseconds: number): void {
    if (this.#fixed) return;
    this.#aim = Math.max(AIM_SECONDS, (AIM_ROUND_TRIPS * milliseconds) / 1000);
    this.#spread = milliseconds >= LONG;
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
    this.#bytes = whole(bytes, LARGEST);
  }
}

function whole(bytes: number, most = Infinity): number {
  const blocks = Math.round(bytes / BLOCK_SIZE) * BLOCK_SIZE;
  return Math.min(Math.max(blocks, SMALLEST), most);
}
