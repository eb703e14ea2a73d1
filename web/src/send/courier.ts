/** Carries out what the upload state machine decides: requests, hashing, waiting. */
import { depot } from "../api/depot";
import { DepotError } from "../api/error";
import { persist } from "../api/persist";
import { LOOK, busyTabs } from "../api/tabs";
import { type Part, compose } from "../engine/compose";
import { BLOCK_SIZE, type BlockNumber, type BlockRun, type EntryIndex } from "../engine/units";
import type { BlockValue, Chunk, ChunkId, Upload } from "../engine/upload";
import { cannotSend } from "../hash/lack";
import { CannotHash, type HashPool, WorkerFailed, taskOf } from "../hash/pool";
import type { BlockTask } from "../hash/protocol";
import { whyNoWorker } from "../hash/starting";
import { Patience } from "./patience";
import { put } from "./put";
import type { SourceFailure, Sources } from "./sources";

/** How often stalled requests are looked for and the number of requests is reconsidered. */
const TICK = 500;
/** The attempt from which on what cannot be read is looked for in all of a chunk. */
const PROBE_WHOLE = 3;
/** The attempt with which it is over, where nothing can be found that cannot be read: some seven seconds after the first. */
const LAST_UNEXPLAINED = 8;
const UNREADABLE = "The browser cannot read what comes next, though it can read each of its files: it may be short of memory. Close other tabs, then try again.";
/** Hash workers that do not start though their script is there: in a row. */
const MOST_WORKER_FAILURES = 10;
const NO_WORKER = "The page cannot start what computes hashes: reload it, then resume from the list of transfers.";

export interface CourierEvents {
  /** An entry was given up. */
  failed(failure: SourceFailure): void;
  /** Resolves when the depot knows of all entries that were given up; `false` if it will not. */
  reported(): Promise<boolean>;
  /** Something other than figures changed: everything is under way or delivered, the depot was lost or regained. */
  changed(): void;
  /** The depot does not take something just now, which is tried again, or `null`: it took something. */
  answered(hindrance: DepotError | null): void;
  /** The depot refuses; trying again by itself would not help. */
  refused(error: DepotError): void;
}

interface Ready {
  readonly chunk: Chunk;
  readonly body: ArrayBuffer;
  /** The page's own; empty without hashing. */
  readonly values: readonly BlockValue[];
}

export class Courier {
  /** How to call off what is done with each chunk. */
  readonly #underWay = new Map<ChunkId, { abort(): void }>();
  readonly #ready = new Map<ChunkId, Ready>();
  readonly #stop = new AbortController();
  #ticker: ReturnType<typeof setInterval> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #ticked = -Infinity;
  #looked = -Infinity;
  readonly #patience = new Patience();
  #probing = false;
  #workerFailures = 0;
  #asking: Promise<void> | null = null;
  /** `null` while the depot has not answered: chunks are read meanwhile. */
  #transfer: string | null = null;

  constructor(
    readonly upload: Upload,
    readonly sources: Sources,
    /** `null` when hashing is switched off. */
    readonly hashers: HashPool | null,
    readonly events: CourierEvents,
  ) {}

  /** There is a transfer to send to. */
  open(transfer: string): void {
    this.#transfer = transfer;
    this.#ticker = setInterval(() => this.#tick(), TICK);
  }

  /** Sends what may be sent now. Call it whenever the machine was told something. */
  pump(): void {
    if (this.#stop.signal.aborted) return;
    const now = performance.now();
    for (let chunk = this.upload.pollRead(now); chunk; chunk = this.upload.pollRead(now)) void this.#read(chunk);
    const transfer = this.#transfer;
    const poll = () => (transfer === null ? null : this.upload.pollSend(now));
    for (let id = poll(); id !== null; id = poll()) this.#send(transfer!, this.#ready.get(id)!);
    clearTimeout(this.#timer);
    const due = this.upload.pollTimeout(now);
    if (due !== null) this.#timer = setTimeout(() => this.pump(), Math.max(0, due - now) + 1);
    if (this.upload.underWay) this.events.changed();
  }

  /** The entry that this device cannot read at this moment, or has taken suspiciously long to read from, if there is one. */
  get waitingFor(): EntryIndex | null {
    return this.#patience.waitingFor ?? this.upload.slowRead(performance.now());
  }

  /** Gives an entry up: what carries it is called off. */
  fail(failure: SourceFailure): void {
    if (this.upload.isFailed(failure.entry)) return;
    this.#patience.forget(failure.entry);
    for (const id of this.upload.handleFailed(failure.entry)) this.#underWay.get(id)?.abort();
    this.events.failed(failure);
  }

  pause(): void {
    for (const id of this.upload.pause()) this.#underWay.get(id)?.abort();
  }

  resume(): void {
    this.upload.resume();
    this.#patience.restart();
    // The last attempt may have ended in a refusal.
    if (!this.upload.reachable) void this.#probe();
    this.pump();
  }

  close(): void {
    this.#stop.abort();
    clearInterval(this.#ticker);
    clearTimeout(this.#timer);
    for (const { abort } of this.#underWay.values()) abort();
  }

  #tick(): void {
    this.#ticked = performance.now();
    this.#patience.handleAwake(performance.now());
    this.#look();
    for (const id of this.upload.pollStalled(performance.now())) {
      this.upload.handleLost(id, performance.now(), Math.random(), false);
      this.#underWay.get(id)?.abort();
      void this.#probe();
    }
    for (const id of this.upload.pollSurplus(performance.now())) this.#underWay.get(id)?.abort();
    this.pump();
  }

  /** Learns with how many tabs it shares the browser's connections. */
  #look(): void {
    if (performance.now() - this.#looked < LOOK) return;
    this.#looked = performance.now();
    busyTabs().then((tabs) => this.upload.handleTabs(tabs)).catch(() => {});
  }

  /** Reads the chunk's bytes, once: they are hashed, and sent when its turn comes. */
  async #read(chunk: Chunk): Promise<void> {
    const { id, run } = chunk;
    let aborted = false;
    const abort = () => {
      aborted = true;
      this.#underWay.delete(id);
      this.#ready.delete(id);
      this.upload.handleAborted(id, performance.now());
    };
    this.#underWay.set(id, { abort });
    const parts = compose(this.upload.space, run, (entry) => this.upload.isFailed(entry));
    try {
      const source = await this.sources.body(parts);
      const hashed = await this.hashers?.hash(source, this.#tasks(run), true);
      const body = hashed?.bytes[0] ?? (await source.arrayBuffer());
      if (aborted) return;
      // The depot takes a block's bytes for its files' own unless it knows which of them failed, and the page may be gone at any moment.
      if (parts.some(({ kind }) => kind === "zeros") && !(await this.events.reported())) return abort();
      if (aborted) return;
      const values = hashed?.blocks.map(({ value }, at) => ({ block: run[0] + at, value })) ?? [];
      this.#ready.set(id, { chunk, body, values });
      this.upload.handleRead(id, values, performance.now());
      this.#workerFailures = 0;
      this.#patience.handleRead(entriesOf(parts));
    } catch (error) {
      const explained = aborted || (await this.#handleUnread(chunk, parts));
      if (error instanceof CannotHash) {
        this.events.refused(new DepotError("no_worker", cannotSend(error.lack), 0, false));
      } else if (error instanceof WorkerFailed) {
        // Of several chunks each is without one.
        this.#asking ??= this.#handleNoWorker().finally(() => (this.#asking = null));
      } else if (!explained && chunk.attempt >= LAST_UNEXPLAINED) {
        this.events.refused(new DepotError("unreadable", UNREADABLE, 0, false));
      }
    }
    this.pump();
  }

  /** It is tried again with the next chunk, unless that would be of no use. */
  async #handleNoWorker(): Promise<void> {
    const why = await whyNoWorker(this.#stop.signal);
    if (this.#stop.signal.aborted || why instanceof DepotError) return;
    if (why === null && ++this.#workerFailures < MOST_WORKER_FAILURES) return;
    // Before there is a transfer there is none to go on with.
    if (this.#transfer === null) return;
    this.#workerFailures = 0;
    this.events.refused(new DepotError("no_worker", NO_WORKER, 0, false));
  }

  #send(transfer: string, { chunk, body, values }: Ready): void {
    const { id, run } = chunk;
    this.#ready.delete(id);
    const handleProgress = (loaded: number) => {
      this.upload.handleProgress(id, loaded, performance.now());
      // In a tab that nobody has seen for minutes timers run once a minute.
      if (performance.now() - this.#ticked >= 2 * TICK) this.#tick();
    };
    const request = put(transfer, run[0] * BLOCK_SIZE, body, values, handleProgress);
    this.#underWay.set(id, request);
    void request.answer
      .then(
        (received) => {
          this.events.answered(null);
          this.#giveUp(this.upload.handleReceived(id, received, performance.now(), Math.random()));
        },
        (error: DepotError) => this.#handleError(chunk, error),
      )
      .finally(() => {
        this.#underWay.delete(id);
        this.pump();
      });
  }

  #tasks([first, count]: BlockRun): BlockTask[] {
    return Array.from({ length: count }, (_, at) => taskOf(this.upload.space.shape(first + at)));
  }

  /** Something kept the chunk's bytes from being read: `false` if no file was found to blame. */
  async #handleUnread({ id, attempt }: Chunk, parts: readonly Part[]): Promise<boolean> {
    // A file's first byte can often be read where a later one cannot.
    const whole = attempt >= PROBE_WHOLE;
    const first = await this.sources.failures(parts, whole);
    const alone = first.length > 0 && (await this.sources.canReadBeside(first));
    // What was away with its drive may be back by the time that what is next to it was looked at.
    const found = alone ? await this.sources.failures(parts, whole) : first;
    // Another chunk may have had the same to say meanwhile.
    const failures = found.filter(({ entry }) => !this.upload.isFailed(entry));
    const now = performance.now();
    const lasting = this.#patience.handleFailures(failures, alone, now);
    this.#underWay.delete(id);
    if (found.length === 0) this.upload.handleLost(id, now, Math.random(), true);
    else if (lasting.length < failures.length) this.upload.handleUnread(id, now, Math.random(), !alone);
    else this.upload.handleAborted(id, now);
    lasting.forEach((failure) => this.fail(failure));
    return first.length > 0;
  }

  #handleError(chunk: Chunk, error: DepotError): void {
    const now = performance.now();
    if (this.#stop.signal.aborted || error.code === "aborted") {
      this.upload.handleAborted(chunk.id, now);
    } else if (error.code === "network") {
      // The depot may have it all: nothing is read again before it has said so. That was in memory, so no file is to blame.
      this.upload.handleLost(chunk.id, now, Math.random(), false);
      void this.#probe();
    } else if (error.code === "hash_mismatch" && blockOf(error) !== null) {
      this.#giveUp(this.upload.handleMismatch(chunk.id, blockOf(error)!, now, Math.random()));
    } else if (error.code === "content_conflict") {
      this.#giveUp(this.upload.handleConflict(chunk.id, now));
    } else if (error.retry) {
      this.events.answered(error);
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
    const transfer = this.#transfer;
    if (this.#probing || transfer === null) return;
    const { signal } = this.#stop;
    this.#probing = true;
    this.events.changed();
    try {
      this.upload.handleReachable(await persist(() => depot.present(transfer, signal), signal, this.events.answered));
      this.events.answered(null);
      this.pump();
    } catch (error) {
      if (!signal.aborted) this.events.refused(error instanceof DepotError ? error : DepotError.unreadable(0));
    } finally {
      this.#probing = false;
      this.events.changed();
    }
  }
}

function* entriesOf(parts: readonly Part[]): Iterable<EntryIndex> {
  for (const part of parts) if (part.kind === "slice") yield part.entry;
}

/** The block that a refusal is about. */
function blockOf({ body }: DepotError): BlockNumber | null {
  return (body as { error?: { block?: BlockNumber } } | null)?.error?.block ?? null;
}
