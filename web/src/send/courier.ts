/** Carries out what the upload state machine decides: requests, hashing, waiting. */
import { depot } from "../api/depot";
import { DepotError } from "../api/error";
import { persist } from "../api/persist";
import { type Part, compose } from "../engine/compose";
import { BLOCK_SIZE, type BlockRun, type EntryIndex } from "../engine/units";
import { type BlockValue, type Chunk, type ChunkId, type Upload, isGathered } from "../engine/upload";
import { type HashPool, taskOf } from "../hash/pool";
import { put } from "./put";
import type { SourceFailure, Sources } from "./sources";

/** How often stalled requests are looked for and the number of requests is reconsidered. */
const TICK = 500;

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
    this.#send(chunk, parts, body);
    if (this.hashers) void this.#hash(this.hashers, chunk, parts, body);
  }

  #send(chunk: Chunk, parts: readonly Part[], body: Blob): void {
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
      const bytes = await this.#hash(this.hashers, chunk, parts, body, true);
      body = bytes && new Blob(bytes);
    }
    if (aborted) return;
    this.#puts.delete(chunk.id);
    if (body) this.#send(chunk, parts, body);
  }

  /** Hashes the chunk's body. Returns what was read, if it was to be kept; `null` when it cannot be read. */
  async #hash(hashers: HashPool, chunk: Chunk, parts: readonly Part[], body: Blob, keep = false): Promise<ArrayBuffer[] | null> {
    const { id, run } = chunk;
    const numbers = Array.from({ length: run[1] }, (_, at) => run[0] + at);
    try {
      const tasks = numbers.map((block) => taskOf(this.upload.space.shape(block)));
      const { blocks, bytes } = await hashers.hash(body, tasks, keep);
      const values: BlockValue[] = blocks.map(({ value }, at) => ({ block: numbers[at]!, value }));
      this.#giveUp(this.upload.handleHashed(id, values, performance.now(), Math.random()));
      return bytes;
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
