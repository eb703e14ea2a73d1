/**
 * What to send next, what has arrived, and what to do when something goes wrong: a state machine without I/O.
 *
 * The driver appends entries as the depot places them, and reports what became of each chunk. A chunk is done when the
 * depot has answered and the page's own value of each block equals the depot's. Time and randomness are arguments.
 *
 * | a chunk is | until | and then |
 * |---|---|---|
 * | being read, from `pollRead` on | `handleRead` | ready |
 * | ready | `pollSend` | being sent |
 * | being sent, or waiting for a connection | `handleReceived` | done, or its blocks that differ are to be read again |
 * | any of these | `handleLost`, `handleUnread`, `handleAborted`, `handleMismatch`, `handleConflict` | its blocks are to be read again |
 */
import { AddressSpace } from "./address_space";
import { backoff } from "./backoff";
import { BlockState, BlockStates } from "./block_states";
import { ChannelCount, MAX } from "./channel_count";
import { ChunkSize } from "./chunk_size";
import { Speedometer } from "./speedometer";
import { BLOCK_SIZE, type BlockNumber, type BlockRun, type EntryIndex, type Instant, blockOf } from "./units";

/** Slices that one request's body may be made of, unless a single block has more. */
const MOST_PARTS = 4096;
/** Chunks that are read while all requests that may be are under way, so that the next one need not wait for its bytes. */
const READ_AHEAD = 1;
/** Requests that the browser is given while all of its connections are taken. Their bytes are then where they are sent from: a
 * connection whose answer has come goes on at once, and does not wait for the page. */
const WAITING = 2;
/** A block whose bytes differ this often is not being read the same way twice. */
const MOST_MISMATCHES = 3;
/** Milliseconds until a device that could not be read is tried again, at most. */
const LONGEST_UNREAD = 5_000;
/** Requests one after the other that the depot could not take, from which on it is the depot that is given time, and not the chunk alone: a
 * busy one refuses some and takes others. */
const MOST_REFUSED = 16;
/** Silence of all requests after which it is said that nothing moves. On a thin line a request's bytes go out in jumps. */
const SILENT = 15_000;
/** Silence after which a request is given up. */
const STALLED = 60_000;

export type ChunkId = number;

/** What one request carries: whole blocks. */
export interface Chunk {
  readonly id: ChunkId;
  readonly run: BlockRun;
  readonly bytes: number;
  /** 1 for the first try. */
  readonly attempt: number;
}

export interface BlockValue {
  readonly block: BlockNumber;
  readonly value: string;
}

interface Flight {
  readonly chunk: Chunk;
  at: "reading" | "ready" | "sending";
  /** When it came to be there. */
  since: Instant;
  loaded: number;
  lastProgress: Instant;
  /** The page's own; empty without hashing. */
  values: readonly BlockValue[];
}

interface Retry {
  readonly run: BlockRun;
  readonly attempt: number;
  readonly notBefore: Instant;
}

export interface UploadOptions {
  /** `false` skips hashing in the browser: for measuring what it costs, never for use. */
  readonly hashing: boolean;
  /** `false` takes whatever value the depot answers: for measuring against a server that discards, never for use. */
  readonly comparing?: boolean | undefined;
  /** A fixed number of requests at a time instead of one that adapts. */
  readonly channels?: number | undefined;
  /** A fixed number of bytes in a request instead of one that adapts. */
  readonly chunk?: number | undefined;
}

export interface Progress {
  /** Bytes of all entries that have not failed. */
  readonly total: number;
  /** Of these, what the depot has. */
  readonly done: number;
  /** On its way at this moment. */
  readonly inFlight: number;
  readonly bytesPerSecond: number | null;
  readonly secondsLeft: number | null;
  readonly requests: number;
}

/** How many requests the browser is given for so many at a time: with fewer than all of its connections it would open another one. */
function given(channels: number): number {
  return channels < MAX ? channels : channels + WAITING;
}

export class Upload {
  readonly space = new AddressSpace();
  readonly #blocks = new BlockStates();
  readonly #flights = new Map<ChunkId, Flight>();
  #retries: Retry[] = [];
  readonly #failed = new Set<EntryIndex>();
  readonly #sizes: number[] = [];
  readonly #doneOf: number[] = [];
  /** Files that have not failed, of each shared block. */
  readonly #live = new Map<BlockNumber, number>();
  readonly #mismatches = new Map<BlockNumber, number>();
  readonly #chunkSize: ChunkSize;
  readonly #channels: ChannelCount;
  readonly #speed = new Speedometer();
  readonly #comparing: boolean;
  #nextId: ChunkId = 1;
  #total = 0;
  #done = 0;
  /** Bytes that arrived while this page was sending: what speed is measured by. */
  #arrived = 0;
  #pendingBytes = 0;
  #unfinished = 0;
  #readNotBefore: Instant = -Infinity;
  /** Since it last took one. */
  #refused = 0;
  #sendNotBefore: Instant = -Infinity;
  #sealed = false;
  #paused = false;
  #reachable = true;

  constructor(options: UploadOptions) {
    this.#comparing = options.hashing && options.comparing !== false;
    this.#channels = new ChannelCount(options.channels);
    this.#chunkSize = new ChunkSize(options.chunk);
  }

  /** How long a round trip to the depot takes, in milliseconds. Call it before the first `poll`. */
  handleRoundTrip(milliseconds: number): void {
    this.#channels.handleRoundTrip(milliseconds);
    this.#chunkSize.handleRoundTrip(milliseconds);
  }

  /** So many tabs of this browser send or save now, this one among them. */
  handleTabs(tabs: number): void {
    this.#channels.handleTabs(tabs);
  }

  /** The depot placed an entry with bytes. */
  append(entry: EntryIndex, address: number, size: number): void {
    this.#sizes[entry] = size;
    this.#doneOf[entry] = 0;
    this.#total += size;
    if (size < BLOCK_SIZE) this.#countLive(blockOf(address), 1);
    this.#offer(this.space.append(entry, address, size));
  }

  /** The manifest is complete. */
  seal(): void {
    this.#offer(this.space.seal());
    this.#sealed = true;
  }

  /** The depot has these blocks from before. */
  handleDurable(runs: readonly BlockRun[]): void {
    for (const [first, count] of runs) {
      for (let block = first; block < first + count && block < this.space.blockCount; block++) {
        if (this.#blocks.of(block) !== BlockState.Void) this.#set(block, BlockState.Done);
      }
    }
  }

  /** The next chunk to read into memory, if one may be read now. */
  pollRead(now: Instant): Chunk | null {
    if (!this.#maySend(now) || now < this.#readNotBefore) return null;
    if (this.#isFull(now)) return null;
    const [run, attempt] = this.#takeRetry(now) ?? this.#takePending(this.#mostSending(now)) ?? [];
    if (!run || !attempt) return null;
    let bytes = 0;
    for (let block = run[0]; block < run[0] + run[1]; block++) {
      this.#set(block, BlockState.Taken);
      bytes += this.space.length(block);
    }
    const chunk = { id: this.#nextId++, run, bytes, attempt };
    this.#flights.set(chunk.id, { chunk, at: "reading", since: now, loaded: 0, lastProgress: now, values: [] });
    return chunk;
  }

  /** The next chunk to send, if one may go out now: the one that has been ready for longest. */
  pollSend(now: Instant): ChunkId | null {
    if (!this.#maySend(now)) return null;
    const flights = [...this.#flights.values()];
    if (flights.filter(({ at }) => at === "sending").length >= given(this.#mostSending(now))) return null;
    const next = flights.filter(({ at }) => at === "ready").sort((a, b) => a.since - b.since)[0];
    if (!next) return null;
    Object.assign(next, { at: "sending", since: now, lastProgress: now });
    return next.chunk.id;
  }

  #maySend(now: Instant): boolean {
    if (this.#paused || !this.#reachable || now < this.#sendNotBefore) return false;
    this.#sendNotBefore = -Infinity;
    return true;
  }

  /** When `pollRead` or `pollSend` may have something that they do not have now, by itself. Where nothing more fits, that is with the next
   * answer. */
  pollTimeout(now: Instant): Instant | null {
    if (this.#paused || !this.#reachable) return null;
    if (this.#sendNotBefore > -Infinity) return this.#sendNotBefore;
    if (this.#retries.length === 0 || this.#isFull(now)) return null;
    return Math.max(this.#readNotBefore, Math.min(...this.#retries.map((retry) => retry.notBefore)));
  }

  /** Chunks of which nothing was heard for so long that they should be given up as lost. */
  pollStalled(now: Instant): ChunkId[] {
    const flights = [...this.#flights.values()];
    const latest = Math.max(...flights.map(({ lastProgress }) => lastProgress));
    // One that has sent nothing may be waiting for a connection, as long as others get on.
    const heard = ({ loaded, lastProgress }: Flight) => (loaded === 0 ? latest : lastProgress);
    // What is still being read says nothing of the network, however slow its file is.
    return flights.filter((flight) => flight.at === "sending" && now - heard(flight) > STALLED).map(({ chunk }) => chunk.id);
  }

  /** Whether requests are under way and nothing was heard of any for some time, and yet none is given up. */
  isSilent(now: Instant): boolean {
    const sending = [...this.#flights.values()].filter(({ at }) => at === "sending");
    return sending.length > 0 && sending.every(({ lastProgress }) => now - lastProgress > SILENT);
  }

  /** Requests to call off so that calls have a connection: those that are furthest from their end, as others take long. */
  pollSurplus(now: Instant): ChunkId[] {
    const sending = [...this.#flights.values()].filter(({ at }) => at === "sending");
    // One that has sent nothing may be waiting for a connection.
    for (const { loaded, since } of sending) if (loaded > 0) this.#channels.handleTaking(now - since);
    if (!this.#channels.leavesOne) return [];
    const furthest = sending.sort((a, b) => a.loaded - b.loaded || b.since - a.since);
    return furthest.slice(0, Math.max(0, sending.length - this.#channels.most)).map(({ chunk }) => chunk.id);
  }

  /** The entry that this device has taken suspiciously long to read from, if there is one: a share may be gone. */
  slowRead(now: Instant): EntryIndex | null {
    const slow = [...this.#flights.values()].find(({ at, since }) => at === "reading" && now - since > STALLED);
    return slow ? (this.#entriesOf(slow.chunk.run[0])[0] ?? null) : null;
  }

  handleProgress(id: ChunkId, loaded: number, now: Instant): void {
    const flight = this.#flights.get(id);
    if (!flight || loaded <= flight.loaded) return;
    this.#channels.handleBytes(Math.min(loaded, flight.chunk.bytes) - flight.loaded);
    // It may have waited for a connection until now.
    if (flight.loaded === 0 && loaded < flight.chunk.bytes) flight.since = now;
    flight.loaded = Math.min(loaded, flight.chunk.bytes);
    flight.lastProgress = now;
  }

  /** The chunk's bytes are in memory, and these are the page's own values of its blocks: none without hashing. */
  handleRead(id: ChunkId, values: readonly BlockValue[], now: Instant): void {
    const flight = this.#flights.get(id);
    this.#readNotBefore = -Infinity;
    if (flight) Object.assign(flight, { at: "ready", since: now, values });
  }

  /** The depot took the chunk, and its values are these. Returns entries to give up: their bytes never come out the same. */
  handleReceived(id: ChunkId, values: readonly BlockValue[], now: Instant, random: number): EntryIndex[] {
    const flight = this.#flights.get(id);
    if (!flight) return [];
    this.#handleTaken();
    this.handleProgress(id, flight.chunk.bytes, now);
    this.#channels.handleTook(now - flight.since);
    this.#chunkSize.handleDelivered(flight.chunk.bytes, now - flight.since);
    return this.#settle(flight, values, now, random);
  }

  /** The request failed on the way, or the depot could not take it just now. `reachable: false` stops further
   * requests until `handleReachable`. */
  handleLost(id: ChunkId, now: Instant, random: number, reachable: boolean): void {
    const flight = this.#flights.get(id);
    if (!flight) return;
    this.#flights.delete(id);
    this.#chunkSize.handleLost();
    this.#retryLater(flight.chunk.run, flight.chunk.attempt + 1, now + backoff(flight.chunk.attempt, random));
    if (!reachable) this.#reachable = false;
    else if (++this.#refused > MOST_REFUSED) this.#sendNotBefore = now + backoff(this.#refused - MOST_REFUSED, random);
  }

  /** The depot takes requests again. */
  #handleTaken(): void {
    this.#refused = 0;
    this.#sendNotBefore = -Infinity;
  }

  /** The chunk's bytes cannot be read just now. `away`: neither can others, so that none are tried until then. */
  handleUnread(id: ChunkId, now: Instant, random: number, away: boolean): void {
    const flight = this.#flights.get(id);
    if (!flight) return;
    this.#flights.delete(id);
    const notBefore = now + Math.min(backoff(flight.chunk.attempt, random), LONGEST_UNREAD);
    this.#retryLater(flight.chunk.run, flight.chunk.attempt + 1, notBefore);
    if (away) this.#readNotBefore = notBefore;
  }

  /** The depot did not take `block`, as it came to another value than the page. Of the chunk's other blocks nothing is known.
   * Returns entries to give up. */
  handleMismatch(id: ChunkId, block: BlockNumber, now: Instant, random: number): EntryIndex[] {
    const chunk = this.#flights.get(id)?.chunk;
    if (!chunk) return [];
    this.#flights.delete(id);
    const [first, count] = chunk.run;
    this.#retryLater([first, block - first], chunk.attempt + 1, now);
    this.#retryLater([block + 1, first + count - block - 1], chunk.attempt + 1, now);
    return this.#differs(block, chunk.attempt, now, random);
  }

  /** The depot holds other content for some block of the chunk: each is tried alone to find which. Returns entries to
   * give up when there is only one. Where a file of it failed that is no wonder: what came there before has that file's own bytes, or
   * those of others that failed since, and for the rest it is what this page sent. */
  handleConflict(id: ChunkId, now: Instant): EntryIndex[] {
    const chunk = this.#flights.get(id)?.chunk;
    if (!chunk) return [];
    this.#flights.delete(id);
    const [first, count] = chunk.run;
    if (count === 1 && this.#entriesOf(first).some((entry) => this.#failed.has(entry))) {
      if (this.#blocks.of(first) === BlockState.Taken) this.#set(first, BlockState.Done);
      return [];
    }
    for (let block = first; block < first + count; block++) this.#retryLater([block, 1], chunk.attempt + 1, now);
    return count === 1 ? this.#entriesOf(first) : [];
  }

  /** The depot answers again, and has these blocks. */
  handleReachable(durable: readonly BlockRun[]): void {
    this.handleDurable(durable);
    this.#reachable = true;
    this.#handleTaken();
    this.#restartMeters();
  }

  /** The request was called off by this side; its blocks are free at once. */
  handleAborted(id: ChunkId, now: Instant): void {
    const flight = this.#flights.get(id);
    if (!flight) return;
    this.#flights.delete(id);
    this.#retryLater(flight.chunk.run, flight.chunk.attempt, now);
  }

  /** An entry cannot be sent any more. Returns the requests that carry it, to be called off. */
  handleFailed(entry: EntryIndex): ChunkId[] {
    if (this.#failed.has(entry)) return [];
    this.#failed.add(entry);
    this.#total -= this.#sizes[entry] ?? 0;
    this.#done -= this.#doneOf[entry] ?? 0;
    const run = this.space.blocksOf(entry);
    if (!run) return [];
    if (this.#sizes[entry]! < BLOCK_SIZE) this.#countLive(run[0], -1);
    for (let block = run[0]; block < run[0] + run[1]; block++) {
      // An open one may still get files that are wanted: what it is shows when it is closed.
      const is = this.#blocks.of(block);
      if (is !== BlockState.Done && is !== BlockState.Open && this.#isVoid(block)) this.#set(block, BlockState.Void);
    }
    return [...this.#flights.values()].filter(({ chunk }) => overlap(chunk.run, run)).map(({ chunk }) => chunk.id);
  }

  /** The depot turned out not to have these. Returns whether there is anything to send again. */
  handleMissing(runs: readonly BlockRun[]): boolean {
    let again = this.#unfinished > 0;
    for (const [first, count] of runs) {
      for (let block = first; block < first + count && block < this.space.blockCount; block++) {
        if (this.#blocks.of(block) !== BlockState.Done) continue;
        this.#set(block, this.#isVoid(block) ? BlockState.Void : BlockState.Pending);
        again ||= this.#blocks.of(block) === BlockState.Pending;
      }
    }
    return again;
  }

  /** Sends nothing more. Returns the requests to call off. */
  pause(): ChunkId[] {
    this.#paused = true;
    return [...this.#flights.keys()];
  }

  resume(): void {
    this.#paused = false;
    this.#handleTaken();
    this.#restartMeters();
  }

  get paused(): boolean {
    return this.#paused;
  }

  get reachable(): boolean {
    return this.#reachable;
  }

  /** Every block of the sealed manifest is with the depot. */
  get delivered(): boolean {
    return this.#sealed && this.#unfinished === 0;
  }

  /** Every block of the sealed manifest is with the depot, or on its way there. */
  get underWay(): boolean {
    if (!this.#sealed || this.#paused || !this.#reachable) return false;
    let sending = 0;
    for (const { chunk, at } of this.#flights.values()) {
      if (at !== "sending") continue;
      for (const [, count] of this.#blocks.runsOf(chunk.run, (state) => state === BlockState.Taken)) sending += count;
    }
    return sending === this.#unfinished;
  }

  isFailed(entry: EntryIndex): boolean {
    return this.#failed.has(entry);
  }

  /** Bytes of `entry` that the depot has. */
  doneOf(entry: EntryIndex): number {
    return this.#doneOf[entry] ?? 0;
  }

  /** Bytes on their way, for each large file that has some. Small files count when their block has arrived. */
  inFlightOf(): Map<EntryIndex, number> {
    const bytes = new Map<EntryIndex, number>();
    for (const { chunk, loaded } of this.#flights.values()) {
      let left = loaded;
      for (let block = chunk.run[0]; block < chunk.run[0] + chunk.run[1] && left > 0; block++) {
        const shape = this.space.shape(block);
        if (shape.kind === "piece") {
          bytes.set(shape.entry, (bytes.get(shape.entry) ?? 0) + Math.min(left, shape.length));
        }
        left -= shape.length;
      }
    }
    return bytes;
  }

  /** The figures to show now. */
  progress(now: Instant): Progress {
    let inFlight = 0;
    let requests = 0;
    for (const flight of this.#flights.values()) {
      inFlight += flight.loaded;
      if (flight.at === "sending") requests++;
    }
    if (!this.#paused && this.#reachable) this.#speed.handleTotal(now, this.#arrived + inFlight);
    const left = Math.max(0, this.#total - this.#done - inFlight);
    return {
      total: this.#total,
      done: this.#done,
      inFlight: Math.min(inFlight, this.#total - this.#done),
      bytesPerSecond: this.#speed.rate,
      // How long the answers take to what is under way, nobody knows.
      secondsLeft: left > 0 ? this.#speed.secondsFor(left) : null,
      requests: Math.min(requests, MAX),
    };
  }

  /** As many chunks are in memory, or on their way, as may be. */
  #isFull(now: Instant): boolean {
    return this.#flights.size >= given(this.#mostSending(now)) + READ_AHEAD;
  }

  #mostSending(now: Instant): number {
    // What is still to be declared must not wait for a request of megabytes: it has the last of a browser's connections.
    return Math.min(this.#channels.target(now), this.#sealed ? Infinity : this.#channels.most);
  }

  #restartMeters(): void {
    this.#speed.reset();
    this.#channels.restart();
  }

  #offer(runs: readonly BlockRun[]): void {
    for (const [first, count] of runs) {
      for (let block = first; block < first + count; block++) {
        if (this.#blocks.of(block) !== BlockState.Open) continue;
        this.#set(block, this.#isVoid(block) ? BlockState.Void : BlockState.Pending);
      }
    }
  }

  #isVoid(block: BlockNumber): boolean {
    const shape = this.space.shape(block);
    return shape.kind === "piece" ? this.#failed.has(shape.entry) : this.#live.get(block) === 0;
  }

  #countLive(block: BlockNumber, sign: 1 | -1): void {
    this.#live.set(block, (this.#live.get(block) ?? 0) + sign);
  }

  /** Moves a block to another state and keeps every count that depends on it. */
  #set(block: BlockNumber, state: BlockState): void {
    const before = this.#blocks.of(block);
    if (before === state) return;
    this.#blocks.set(block, state);
    const length = this.space.length(block);
    if (before === BlockState.Pending) this.#pendingBytes -= length;
    if (state === BlockState.Pending) this.#pendingBytes += length;
    const unfinished = (s: BlockState) => (s === BlockState.Pending || s === BlockState.Taken ? 1 : 0);
    this.#unfinished += unfinished(state) - unfinished(before);
    if (state === BlockState.Done) this.#count(block, 1);
    if (before === BlockState.Done) this.#count(block, -1);
  }

  #count(block: BlockNumber, sign: 1 | -1): void {
    const shape = this.space.shape(block);
    const files = shape.kind === "piece" ? [{ entry: shape.entry, length: shape.length }] : shape.files;
    for (const { entry, length } of files) {
      this.#doneOf[entry] = (this.#doneOf[entry] ?? 0) + sign * length;
      if (!this.#failed.has(entry)) this.#done += sign * length;
    }
  }

  #retryLater(run: BlockRun, attempt: number, notBefore: Instant): void {
    for (const part of this.#blocks.runsOf(run, (state) => state === BlockState.Taken)) {
      this.#retries.push({ run: part, attempt, notBefore });
    }
  }

  #takeRetry(now: Instant): [BlockRun, number] | null {
    const at = this.#retries.findIndex((retry) => retry.notBefore <= now);
    if (at < 0) return null;
    const [retry] = this.#retries.splice(at, 1) as [Retry];
    // Some of its blocks may have turned out to be durable, or void, since.
    const [run, ...later] = this.#blocks.runsOf(retry.run, (state) => state === BlockState.Taken);
    for (const part of later) this.#retries.push({ ...retry, run: part });
    if (!run) return this.#takeRetry(now);
    const fits = this.#fit(run[0], BlockState.Taken, run[1], this.#chunkSize.bytes);
    if (fits < run[1]) this.#retries.push({ ...retry, run: [run[0] + fits, run[1] - fits] });
    return [[run[0], fits], retry.attempt];
  }

  #takePending(channels: number): [BlockRun, number] | null {
    const first = this.#blocks.nextPending();
    if (first === null) return null;
    let left = this.#pendingBytes;
    for (const { chunk, loaded } of this.#flights.values()) left += chunk.bytes - loaded;
    return [[first, this.#fit(first, BlockState.Pending, Infinity, this.#chunkSize.next(left, channels))], 1];
  }

  /** How many blocks from `first`, all in `state`, one request of `room` bytes should carry. */
  #fit(first: BlockNumber, state: BlockState, most: number, room: number): number {
    let count = 0;
    let bytes = 0;
    let parts = 0;
    while (count < most && this.#blocks.of(first + count) === state) {
      const shape = this.space.shape(first + count);
      bytes += shape.length;
      parts += shape.kind === "packed" ? shape.files.length : 1;
      if (count > 0 && (bytes > room || parts > MOST_PARTS)) break;
      count++;
    }
    return count;
  }

  /** Now that both ends' values are known, decides about each block. */
  #settle({ chunk, values }: Flight, received: readonly BlockValue[], now: Instant, random: number): EntryIndex[] {
    const own = new Map(values.map(({ block, value }) => [block, value]));
    const theirs = new Map(received.map(({ block, value }) => [block, value]));
    this.#flights.delete(chunk.id);
    this.#arrived += chunk.bytes;
    const lost: EntryIndex[] = [];
    for (let block = chunk.run[0]; block < chunk.run[0] + chunk.run[1]; block++) {
      if (this.#blocks.of(block) !== BlockState.Taken) continue;
      const value = theirs.get(block);
      if (value !== undefined && (!this.#comparing || value === own.get(block))) {
        this.#set(block, BlockState.Done);
        continue;
      }
      for (const entry of this.#differs(block, chunk.attempt, now, random)) lost.push(entry);
    }
    return lost;
  }

  /** The block is tried again, alone. Returns the entries to give up when that was often enough. */
  #differs(block: BlockNumber, attempt: number, now: Instant, random: number): EntryIndex[] {
    const times = (this.#mismatches.get(block) ?? 0) + 1;
    this.#mismatches.set(block, times);
    this.#retryLater([block, 1], attempt + 1, now + backoff(attempt, random));
    return times >= MOST_MISMATCHES ? this.#entriesOf(block) : [];
  }

  #entriesOf(block: BlockNumber): EntryIndex[] {
    const shape = this.space.shape(block);
    return shape.kind === "piece" ? [shape.entry] : shape.files.map((file) => file.entry);
  }
}

function overlap(a: BlockRun, b: BlockRun): boolean {
  return a[0] < b[0] + b[1] && b[0] < a[0] + a[1];
}
