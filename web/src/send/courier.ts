/** Carries out what the upload state machine decides: requests, hashing, waiting. */
import { depot } from "../api/depot";
import { DepotError } from "../api/error";
import { persist } from "../api/persist";
import { type Part, compose } from "../engine/compose";
import { BLOCK_SIZE, type BlockRun, type EntryIndex } from "../engine/units";
import { type BlockValue, type Chunk, type ChunkId, type Upload, isGathered } from "../engine/upload";
import { type HashPool, type Hashed, taskOf } from "../hash/pool";
import type { BlockTask, HashedBlock } from "../hash/protocol";
import { type Put, put } from "./put";
import type { SourceFailure, Sources } from "./sources";

/** How often stalled requests are looked for and the number of requests is reconsidered. */
const TICK = 500;
/** Blocks that are hashed in one go: reading 16 MiB at a time costs a browser the least. */
const HASHED_AT_ONCE = 4;

export interface CourierEvents {
  /** An entry was given up. */
  failed(failure: SourceFailure): void;
  /** Something other than figures changed: delivered everything, lost or regained the depot. */
  changed(): void;
  /** The depot refuses; trying again by itself would not help. */
  refused(error: DepotError): void;
}

export class Courier {
  readonly #puts = new Map<ChunkId, { abort(): void }>();
  readonly #stop = new AbortController();
  readonly #ticker: ReturnType<typeof setInterval>;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #probing = false;

  constructor(
    readonly transfer: string,
    readonly upload: Upload,
    readonly sources: Sources,
    /** `null` when hashing is switched off. */
    readonly hashers: HashPool | null,
    readonly events: CourierEvents,
  ) {
    this.#ticker = setInterval(() => this.#tick(), TICK);
  }

  /** Sends what may be sent now. Call it whenever the machine was told something. */
  pump(): void {
    if (this.#stop.signal.aborted) return;
    const now = performance.now();
    for (let chunk = this.upload.poll(now); chunk; chunk = this.upload.poll(now)) this.#launch(chunk);
    clearTimeout(this.#timer);
    const due = this.upload.pollTimeout();
    if (due !== null) this.#timer = setTimeout(() => this.pump(), Math.max(0, due - now) + 1);
    if (this.upload.delivered) this.events.changed();
  }

  /** Gives an entry up: what carries it is called off. */
  fail(failure: SourceFailure): void {
    if (this.upload.isFailed(failure.entry)) return;
    for (const id of this.upload.handleFailed(failure.entry)) this.#puts.get(id)?.abort();
    this.events.failed(failure);
  }

  pause(): void {
    for (const id of this.upload.pause()) this.#puts.get(id)?.abort();
  }

  resume(): void {
    this.upload.resume();
    this.pump();
  }

  close(): void {
    this.#stop.abort();
    clearInterval(this.#ticker);
    clearTimeout(this.#timer);
    for (const request of this.#puts.values()) request.abort();
  }

  #tick(): void {
    for (const id of this.upload.pollStalled(performance.now())) {
      this.upload.handleLost(id, performance.now(), Math.random(), false);
      this.#puts.get(id)?.abort();
      void this.#probe();
    }
    this.pump();
  }

  #launch(chunk: Chunk): void {
    const parts = compose(this.upload.space, chunk.run, (entry) => this.upload.isFailed(entry));
    if (isGathered(parts.length, chunk.bytes)) {
      void this.#gather(chunk, parts);
      return;
    }
    const body = this.sources.body(parts);
    const request = this.#send(chunk, parts, body);
    if (this.hashers) void this.#hash(chunk, parts, () => this.#hashAlong(this.hashers!, chunk, body, request));
  }

  #send(chunk: Chunk, parts: readonly Part[], body: Blob): Put {
    const request = put(this.transfer, chunk.run[0] * BLOCK_SIZE, body, (loaded) =>
      this.upload.handleProgress(chunk.id, loaded, performance.now()),
    );
    this.#puts.set(chunk.id, request);
    void request.answer
      .then(
        (values) => this.#giveUp(this.upload.handleReceived(chunk.id, values, performance.now(), Math.random())),
        (error: DepotError) => this.#handleError(chunk, parts, error),
      )
      .finally(() => {
        this.#puts.delete(chunk.id);
        this.pump();
      });
    return request;
  }

  /** Hundreds of small files are read once: opening each a second time would cost more than holding their bytes. */
  async #gather(chunk: Chunk, parts: readonly Part[]): Promise<void> {
    let aborted = false;
    const abort = () => {
      aborted = true;
      this.upload.handleAborted(chunk.id, performance.now());
    };
    this.#puts.set(chunk.id, { abort });
    let body: Blob | null = await this.sources.gather(parts);
    if (this.hashers && !aborted) {
      const hashed = await this.#hash(chunk, parts, () => this.hashers!.hash(body!, this.#tasks(chunk.run), true));
      body = hashed && new Blob(hashed.bytes);
    }
    if (aborted) return;
    this.#puts.delete(chunk.id);
    if (body) this.#send(chunk, parts, body);
  }

  /** Hashes the body of a request while it goes out, each part when its turn comes: all at once would take the processor
   * from what keeps the line full, and a disk would read everything twice. `null` when the request failed. */
  async #hashAlong(hashers: HashPool, chunk: Chunk, body: Blob, request: Put): Promise<Hashed | null> {
    const blocks: HashedBlock[] = [];
    const [first, count] = chunk.run;
    for (let at = 0, bytes = 0; at < count; at += HASHED_AT_ONCE) {
      await request.reached(bytes);
      if (!this.upload.isUnderWay(chunk.id)) return null;
      const tasks = this.#tasks([first + at, Math.min(HASHED_AT_ONCE, count - at)]);
      const end = tasks.reduce((sum, { length }) => sum + length, bytes);
      blocks.push(...(await hashers.hash(body.slice(bytes, end), tasks)).blocks);
      bytes = end;
    }
    return { blocks, bytes: [] };
  }

  #tasks([first, count]: BlockRun): BlockTask[] {
    return Array.from({ length: count }, (_, at) => taskOf(this.upload.space.shape(first + at)));
  }

  /** Has the chunk's body hashed. Returns what came of it; `null` when there is nothing to go on with. */
  async #hash(chunk: Chunk, parts: readonly Part[], hash: () => Promise<Hashed | null>): Promise<Hashed | null> {
    const { id, run } = chunk;
    try {
      const hashed = await hash();
      if (!hashed) return null;
      const values: BlockValue[] = hashed.blocks.map(({ value }, at) => ({ block: run[0] + at, value }));
      this.#giveUp(this.upload.handleHashed(id, values, performance.now(), Math.random()));
      return hashed;
    } catch {
      if (this.#stop.signal.aborted) return null;
      const failures = await this.sources.failures(parts);
      failures.forEach((failure) => this.fail(failure));
      if (failures.length > 0) this.upload.handleAborted(id, performance.now());
      else this.upload.handleLost(id, performance.now(), Math.random(), true);
      this.#puts.get(id)?.abort();
      return null;
    } finally {
      this.pump();
    }
  }

  async #handleError(chunk: Chunk, parts: readonly Part[], error: DepotError): Promise<void> {
    const now = performance.now();
    if (this.#stop.signal.aborted || error.code === "aborted") {
      this.upload.handleAborted(chunk.id, now);
    } else if (error.code === "network") {
      const failures = await this.sources.failures(parts);
      failures.forEach((failure) => this.fail(failure));
      if (failures.length > 0) {
        this.upload.handleAborted(chunk.id, performance.now());
      } else {
        this.upload.handleLost(chunk.id, performance.now(), Math.random(), false);
        void this.#probe();
      }
    } else if (error.code === "content_conflict") {
      this.#giveUp(this.upload.handleConflict(chunk.id, now));
    } else if (error.retry) {
      this.upload.handleLost(chunk.id, now, Math.random(), true);
    } else {
      this.upload.handleAborted(chunk.id, now);
      this.events.refused(error);
    }
  }

  /** Their bytes are not what they were. */
  #giveUp(entries: readonly EntryIndex[]): void {
    for (const entry of entries) {
      this.fail({ entry, cause: "changed", detail: "The file's content changed while it was being sent." });
    }
  }

  /** Waits until the depot answers, and learns what it has. */
  async #probe(): Promise<void> {
    if (this.#probing) return;
    this.#probing = true;
    this.events.changed();
    try {
      this.upload.handleReachable(await present(this.transfer, this.#stop.signal));
      this.pump();
    } catch (error) {
      if (error instanceof DepotError && !this.#stop.signal.aborted) this.events.refused(error);
    } finally {
      this.#probing = false;
      this.events.changed();
    }
  }
}

/** The blocks that the depot has, however long it takes to learn it. */
export async function present(transfer: string, signal: AbortSignal): Promise<BlockRun[]> {
  const { received, durable } = await persist(() => depot.extents(transfer, signal), signal);
  return [...durable, ...received];
}
