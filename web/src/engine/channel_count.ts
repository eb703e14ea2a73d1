/**
 * How many requests to keep going: add while it helps, drop what does not.
 *
 * | state | each interval | next |
 * |---|---|---|
 * | measuring at N | record the rate | try N + 1 |
 * | trying N + 1 | the rate rose by more than `GAIN` | keep it, try again |
 * | trying N + 1 | it did not | back to N, hold |
 * | holding | `HOLD` intervals pass, or the rate falls by a third | measuring |
 *
 * Where a request takes long, all but one of a browser's connections fill the line as well, and the last is left for calls, whose answers
 * would have to wait for the end of a request. A browser has these connections for all of its tabs together, so those that send or save
 * share them.
 */
import type { Instant } from "./units";

const START = 3;
/** Round trips from here on, in milliseconds, are long: each connection begins slowly and holds little under way, so
 * all of them are needed, and finding that out one by one would take many round trips. */
export const LONG = 10;
/** Browsers open no more connections than this to one host over HTTP/1.1. */
export const MAX = 6;
/** Milliseconds from which on a request takes long. Those that go through by themselves are meant to take less, or three seconds. */
const LONG_REQUEST = 3_000;
/** The same in round trips: on the longest paths requests begin slowly, and are meant to take several. */
const LONG_IN_ROUND_TRIPS = 20;
/** Of a few connections, as many short requests in a row are tried with all again: on a line that each of few fills they are short without
 * there being room for more, on one that none of six fills they are no longer for being more. Twice as many each time, up to so many. */
const FIRST_PATIENCE = 64;
const MOST_PATIENCE = 512;
const INTERVAL = 2_000;
const GAIN = 1.08;
const HOLD = 10;

/** How many connections each of so many tabs may keep for long, so that one is left for calls. */
export function connectionsEach(tabs: number): number {
  return Math.max(1, Math.floor((MAX - 1) / Math.max(1, tabs)));
}

type State =
  | { at: "measuring" }
  | { at: "trying"; base: number; baseRate: number }
  | { at: "holding"; left: number; rate: number };

/** How many requests to begin with, by how many milliseconds a round trip takes. */
export function channelsAtFirst(roundTrip: number): number {
  return roundTrip >= LONG ? MAX : START;
}

export class ChannelCount {
  #target: number;
  readonly #fixed: boolean;
  #start: Instant | null = null;
  #bytes = 0;
  #state: State = { at: "measuring" };
  #longRequest = LONG_REQUEST;
  #leavesOne = false;
  #short = 0;
  #patience = FIRST_PATIENCE;
  #most = connectionsEach(1);

  /** `fixed` keeps that many, whatever is measured. */
  constructor(fixed?: number) {
    this.#fixed = fixed !== undefined;
    this.#target = fixed ?? START;
  }

  /** How long a round trip takes, as soon as that is known. */
  handleRoundTrip(milliseconds: number): void {
    this.#longRequest = Math.max(LONG_REQUEST, LONG_IN_ROUND_TRIPS * milliseconds);
    if (!this.#fixed && this.#state.at === "measuring") this.#target = channelsAtFirst(milliseconds);
  }

  handleBytes(bytes: number): void {
    this.#bytes += bytes;
  }

  /** A request has taken so many milliseconds, or takes them already. */
  handleTaking(milliseconds: number): void {
    if (milliseconds <= this.#longRequest) return;
    this.#leavesOne = !this.#fixed;
    this.#short = 0;
  }

  /** A request has taken so many milliseconds in all. Not at once where it is a little less than long: that is what many are meant to take.
   * Of a few each is faster than it would be among all, in proportion. */
  handleTook(milliseconds: number): void {
    this.handleTaking(milliseconds);
    const short = this.#longRequest / 2;
    if (milliseconds < short * (this.#most / (MAX - 1))) this.#leavesOne = false;
    if (!this.#leavesOne || milliseconds >= short || ++this.#short < this.#patience) return;
    this.#leavesOne = false;
    this.#patience = Math.min(2 * this.#patience, MOST_PATIENCE);
  }

  /** So many tabs of this browser send or save now, this one among them. */
  handleTabs(tabs: number): void {
    this.#most = connectionsEach(tabs);
  }

  /** One of the browser's connections is left for calls. */
  get leavesOne(): boolean {
    return this.#leavesOne;
  }

  /** How many there may be where one of the browser's connections is left for calls. */
  get most(): number {
    return this.#most;
  }

  /** Forgets the running measurement, as after a pause. */
  restart(): void {
    this.#start = null;
    this.#bytes = 0;
  }

  /** How many there should be now. */
  target(now: Instant): number {
    if (this.#fixed) return this.#target;
    this.#start ??= now;
    const elapsed = now - this.#start;
    if (elapsed >= INTERVAL) {
      const rate = this.#bytes / elapsed;
      this.#start = now;
      this.#bytes = 0;
      this.#state = this.#next(rate);
    }
    return this.#leavesOne ? Math.min(this.#target, this.#most) : this.#target;
  }

  #next(rate: number): State {
    const state = this.#state;
    switch (state.at) {
      case "measuring":
        return this.#tryMore(rate);
      case "trying":
        if (rate > state.baseRate * GAIN) return this.#tryMore(rate);
        this.#target = state.base;
        return { at: "holding", left: HOLD, rate: Math.max(state.baseRate, rate) };
      case "holding":
        if (state.left === 0 || rate < state.rate * 0.66) return { at: "measuring" };
        return { at: "holding", left: state.left - 1, rate: state.rate };
    }
  }

  #tryMore(rate: number): State {
    if (this.#target >= MAX || rate <= 0) return { at: "holding", left: HOLD, rate };
    const base = this.#target;
    this.#target = base + 1;
    return { at: "trying", base, baseRate: rate };
  }
}
