/**
 * Fetches a whole transfer into a folder: several ranges at a time, each block hashed, each file proven before it
 * appears under its name. Files that are there already and have the right hash are not fetched again.
 *
 * | it is | until | and then |
 * |---|---|---|
 * | receiving | files turn out to be there with other content | asking whether they may be replaced |
 * | asking | `answer`, or `stop` | receiving |
 * | receiving | each file is here, or has failed | done |
 * | receiving | `stop`, or something that would fail every file alike | stopped |
 */
import { depot } from "../api/depot";
import { DepotError } from "../api/error";
import { plainly } from "../api/link";
import { LOOK, busyTabs, holdBusy } from "../api/tabs";
import type { Entry } from "../api/types";
import { Arrival, type ArrivalFigures } from "../engine/arrival";
import { connectionsEach } from "../engine/channel_count";
import { messageOf } from "../engine/message_of";
import { type Job, type Wanted, halves, pieces, receivePlan } from "../engine/receive_plan";
import { BLOCK_SIZE, type EntryIndex } from "../engine/units";
import { cannotSave } from "../hash/lack";
import { CannotHash, HashError, HashPool, type Hashed, WorkerFailed } from "../hash/pool";
import type { BlockTask } from "../hash/protocol";
import { startHashers } from "../hash/starting";
import { Observable } from "../observable";
import { type Run, addressRun, fetchBytes, fileRun } from "./fetch_bytes";
import type { Folder, NewFile } from "./folder";
import { Turns } from "./turns";

const PARALLEL = 4;
/** Small files written at the same time, of one block. */
const WRITERS = 8;
const NOT_GIVEN = "The depot did not give a file out, though it has the transfer: its sender may be adding to it.";

export interface ReceiveFailure {
  readonly path: string;
  readonly reason: string;
}

/** A file that was there before, on its way through the hash. */
export interface Comparing {
  readonly path: string;
  readonly size: number;
  readonly done: number;
}

interface Large {
  readonly file: Promise<NewFile>;
  readonly values: string[];
  left: number;
  /** Bytes that are written. None of them is proven before all are. */
  here: number;
  failed: boolean;
}

export class Receiver extends Observable {
  phase: "receiving" | "asking" | "done" | "stopped" = "receiving";
  /** Why it stopped: with its status where the depot refused, and 404 only where the transfer is gone. */
  problem: { readonly message: string; readonly status?: number } | null = null;
  /** What was saved stays of use: another run goes on from it. */
  mayGoOn = true;
  /** Why nothing comes just now, which is tried again. */
  hindrance: DepotError | null = null;
  /** Paths of files that are in the folder already with other content: the sender chose the names, and they are somebody's. */
  readonly others: string[] = [];
  readonly failures: ReceiveFailure[] = [];
  comparing: Comparing | null = null;
  files = 0;
  readonly total: number;
  readonly #entries = new Map<EntryIndex, Entry>();
  readonly #hashers = new HashPool();
  #hashersStart: Promise<void> | null = null;
  readonly #stop = new AbortController();
  readonly #arrival: Arrival;
  readonly #large = new Map<EntryIndex, Large>();
  readonly #turns = new Turns(PARALLEL);
  #replaces: (replaces: boolean) => void = () => {};

  constructor(readonly transfer: string, entries: readonly Entry[], readonly folder: Folder, readonly through = plainly) {
    super();
    for (const entry of entries) {
      if (entry.state === "complete") this.#entries.set(entry.entry, entry);
      else if (entry.state === "failed") continue;
      else this.failures.push({ path: entry.path, reason: "It has not arrived in the depot yet." });
    }
    this.total = [...this.#entries.values()].reduce((sum, entry) => sum + entry.size, 0);
    this.#arrival = new Arrival(this.total);
  }

  async run(): Promise<void> {
    let stopped = false;
    const reasons: unknown[] = [];
    const stop = (error: unknown) => {
      stopped = true;
      // What is called off is none.
      if (!this.#stop.signal.aborted) reasons.push(error);
      this.#stop.abort();
    };
    await this.#prepare().then(async (wanted) => {
      const jobs = receivePlan(wanted);
      const runner = async () => {
        for (const job of jobs) await this.#do(job);
      };
      const release = holdBusy();
      const looks = setInterval(() => void this.#look(), LOOK);
      // Each to its end: what is being written is whole or gone before anybody hears that this has stopped.
      await Promise.all(Array.from({ length: PARALLEL }, () => runner().catch(stop)));
      clearInterval(looks);
      release();
    }, stop);
    await Promise.all([...this.#large.values()].map(giveUp));
    for (const reason of reasons) await this.#explain(reason);
    this.#hashers.close();
    this.#arrival.handleEnd();
    this.phase = stopped ? "stopped" : "done";
    this.changed();
  }

  /** Says why it stopped. Something on the way may have refused a file, or the depot while the transfer is opened again: it is gone only
   * if the depot says so when it is asked for the transfer itself. */
  async #explain(error: unknown): Promise<void> {
    if (error instanceof CannotHash) {
      this.mayGoOn = false;
      this.problem = { message: cannotSave(error.lack) };
      return;
    }
    if (!mayBeGone(error)) {
      const noWorker = error instanceof WorkerFailed && "The page cannot start what computes hashes: reload it.";
      this.problem = error instanceof DepotError ? error : { message: noWorker || messageOf(error) };
      return;
    }
    const { message } = error;
    try {
      await this.through(() => depot.transfer(this.transfer));
      this.problem = { message: error.isNotFound ? NOT_GIVEN : message };
    } catch (refusal) {
      this.mayGoOn = !(refusal instanceof DepotError && refusal.isNotFound);
      this.problem = this.mayGoOn ? { message } : { message, status: 404 };
    }
  }

  stop(): void {
    this.#stop.abort();
    this.#hashers.close();
    this.#replaces(false);
  }

  /** Whether `others` are replaced, or left as they are. */
  answer(replaces: boolean): void {
    this.#replaces(replaces);
  }

  figures(): ArrivalFigures {
    return this.#arrival.figures(performance.now());
  }

  /** Makes folders; finds which files are still to be fetched. */
  async #prepare(): Promise<Wanted[]> {
    const wanted: Wanted[] = [];
    const others = new Set<EntryIndex>();
    for (const entry of this.#entries.values()) {
      this.#stop.signal.throwIfAborted();
      if (entry.kind === "symlink") {
        this.failures.push({ path: entry.path, reason: "Browsers cannot make symbolic links: the zip has it." });
        continue;
      }
      try {
        if (entry.kind === "directory") {
          await this.folder.folder(entry.path);
          continue;
        }
        const there = await this.folder.existing(entry.path);
        if (there && (await this.#isSame(there, entry))) {
          this.folder.keep(entry.path);
          this.#arrival.handleFound(entry.size);
          this.#handleWhole();
          continue;
        }
        wanted.push(entry);
        // An empty one may be what a page that was closed has left of a file that it was writing.
        if (there && there.size > 0) others.add(entry.entry);
      } catch (error) {
        await this.#fail(entry.entry, error);
      }
    }
    this.#stop.signal.throwIfAborted();
    const refused = new Set<EntryIndex>();
    const refuse = (entry: EntryIndex, error: unknown) => {
      refused.add(entry);
      return this.#fail(entry, error);
    };
    for (const entry of [...others]) {
      try {
        // It may be a file of the transfer that was met later, under another name: nobody is asked whether that may go.
        await this.folder.check(this.#entries.get(entry)!.path);
      } catch (error) {
        others.delete(entry);
        await refuse(entry, error);
      }
    }
    if (others.size > 0 && !(await this.#mayReplace(others))) {
      for (const entry of others) await refuse(entry, new Error("Another file of this name was there, and stays as it is."));
    }
    return wanted.filter(({ entry }) => !refused.has(entry));
  }

  async #mayReplace(others: ReadonlySet<EntryIndex>): Promise<boolean> {
    for (const entry of others) this.others.push(this.#entries.get(entry)?.path ?? "");
    this.phase = "asking";
    const answer = new Promise<boolean>((resolve) => (this.#replaces = resolve));
    this.changed();
    const replaces = await answer;
    this.phase = "receiving";
    this.changed();
    return replaces;
  }

  async #isSame(file: File, entry: Entry): Promise<boolean> {
    if (file.size !== entry.size || !entry.blake3) return false;
    if (file.size === 0) return true;
    const values: string[] = [];
    const all = pieces(file.size);
    let done = 0;
    const runner = async () => {
      for (const { offset, length } of all) {
        this.#stop.signal.throwIfAborted();
        this.comparing = { path: entry.path, size: file.size, done };
        this.changed();
        const { blocks } = await this.#hash(file.slice(offset, offset + length), tasksOf(offset, length, file.size));
        blocks.forEach(({ value }, at) => (values[offset / BLOCK_SIZE + at] = value));
        done += length;
      }
    };
    try {
      await Promise.all([runner(), runner()]);
      return (await this.#hashers.merge(values)) === entry.blake3;
    } finally {
      this.comparing = null;
    }
  }

  async #do(job: Job): Promise<void> {
    this.#stop.signal.throwIfAborted();
    if (job.kind === "packed") await this.#packed(job);
    else if (job.kind === "pieces") await this.#pieces(job);
    else await this.#write(job.file, new Uint8Array());
  }

  async #packed(job: Job & { kind: "packed" }): Promise<void> {
    const { address, length, files } = job;
    let bytes: ArrayBuffer;
    try {
      bytes = await this.#fetch(addressRun(this.transfer, address, length));
    } catch (error) {
      if (!isDamaged(error)) throw error;
      if (files.length === 1) return this.#fail(files[0]!.entry, error);
      // The depot gives out nothing of what is damaged, nor of what is asked for with it: halves find what is not.
      for (const half of halves(job)) await this.#packed(half);
      return;
    }
    const hashed = await this.#hash(bytes, [{ length, files: files.map(({ size }) => size) }]);
    const hashes = hashed.blocks[0]?.files ?? [];
    let at = 0;
    const writes = files.map((file, index) => ({ file, hash: hashes[index], start: at, end: (at += file.size) }));
    for (let next = 0; next < writes.length; next += WRITERS) {
      // A block may have thousands of files.
      this.#stop.signal.throwIfAborted();
      const written = await Promise.allSettled(
        writes.slice(next, next + WRITERS).map(async ({ file, hash, start, end }) => {
          if (hash === this.#entries.get(file.entry)?.blake3) return this.#write(file, new Uint8Array(hashed.bytes[0]!, start, end - start));
          this.#arrival.handleSettled(file.size, false);
          await this.#fail(file.entry, new Error("Its content does not match its BLAKE3 value."));
        }),
      );
      for (const one of written) if (one.status === "rejected") throw one.reason;
    }
  }

  /** All of it is heard of, and not settled yet. */
  async #fetch(run: Run): Promise<ArrayBuffer> {
    let heard = 0;
    // Timers are late in a tab that is not in front.
    await this.#look();
    try {
      return await fetchBytes(run, this.#stop.signal, {
        heard: (bytes) => {
          heard += bytes;
          this.#arrival.handleHeard(bytes);
          this.#handleAnswer(null);
        },
        lost: (error) => this.#handleAnswer(error),
      }, this.through, this.#turns);
    } catch (error) {
      this.#arrival.handleSettled(heard, false);
      throw error;
    } finally {
      // Where it broke off after the last byte, nothing is heard any more. What failed for good is not tried again.
      this.#handleAnswer(null);
    }
  }

  /** Learns how many of the browser's connections are this tab's. */
  async #look(): Promise<void> {
    this.#turns.limit = Math.min(PARALLEL, connectionsEach(await busyTabs().catch(() => 1)));
  }

  /** What is given to a worker before it has its script is lost with that. */
  async #hash(bytes: Blob | ArrayBuffer, blocks: readonly BlockTask[]): Promise<Hashed> {
    this.#hashersStart ??= startHashers(this.#hashers, this.#stop.signal, (error) => this.#handleAnswer(error)).then(() => this.#handleAnswer(null));
    await this.#hashersStart;
    return this.#hashers.hash(bytes, blocks);
  }

  #handleAnswer(hindrance: DepotError | null): void {
    if (this.hindrance?.message === hindrance?.message) return;
    this.hindrance = hindrance;
    this.changed();
  }

  async #write(file: Wanted, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const opening = this.folder.create(this.#entries.get(file.entry)!.path);
    try {
      const open = await opening;
      if (bytes.length > 0) await open.stream.write(bytes);
      await open.close();
      this.#arrival.handleSettled(file.size, true);
      this.#handleWhole();
    } catch (error) {
      this.#arrival.handleSettled(file.size, false);
      await giveUp({ file: opening });
      await this.#fail(file.entry, error);
    }
  }

  async #pieces({ file, offset, length }: Job & { kind: "pieces" }): Promise<void> {
    let large = this.#large.get(file.entry);
    if (!large) {
      const entry = this.#entries.get(file.entry)!;
      large = { file: this.folder.create(entry.path), values: [], left: file.size, here: 0, failed: false };
      this.#large.set(file.entry, large);
    }
    /** Bytes that are here and not written. */
    let here = 0;
    try {
      if (!large.failed) {
        // What cannot be written need not come.
        const { stream } = await large.file;
        const hash = this.#entries.get(file.entry)!.blake3 ?? null;
        const bytes = await this.#fetch(fileRun(this.transfer, file.entry, hash, offset, length));
        here = length;
        const hashed = await this.#hash(bytes, tasksOf(offset, length, file.size));
        hashed.blocks.forEach(({ value }, at) => (large.values[offset / BLOCK_SIZE + at] = value));
        await stream.write({ type: "write", position: offset, data: hashed.bytes[0]! });
        here = 0;
        // Another piece may have had the file given up meanwhile.
        if (large.failed) this.#arrival.handleSettled(length, false);
        else large.here += length;
      }
      large.left -= length;
      if (large.left === 0 && !large.failed) await this.#close(file, large);
    } catch (error) {
      this.#arrival.handleSettled(here, false);
      this.#stop.signal.throwIfAborted();
      large.left -= length;
      if (large.left === 0) this.#large.delete(file.entry);
      if (large.failed) return;
      large.failed = true;
      this.#arrival.handleSettled(large.here, false);
      await giveUp(large);
      await this.#fail(file.entry, error);
    }
  }

  async #close(file: Wanted, large: Large): Promise<void> {
    const open = await large.file;
    if ((await this.#hashers.merge(large.values)) !== this.#entries.get(file.entry)?.blake3) {
      throw new Error("Its content does not match its BLAKE3 value.");
    }
    await open.close();
    this.#arrival.handleSettled(file.size, true);
    this.#large.delete(file.entry);
    this.#handleWhole();
  }

  /** A file is here, all of it proven. */
  #handleWhole(): void {
    this.files++;
    this.changed();
  }

  /** What fails every file alike stops, and is said once. */
  async #fail(entry: EntryIndex, error: unknown): Promise<void> {
    if (error instanceof WorkerFailed) throw error;
    if (error instanceof DOMException || error instanceof HashError) {
      if (error.name === "QuotaExceededError") throw new Error("The disk is full.");
      if (error.name === "NotAllowedError") throw new Error("The browser may not write to this folder any more.");
      if (!(await this.folder.isThere())) throw new Error("The folder is gone: connect its drive again, or choose another.");
    }
    if (isRefused(error)) throw error;
    this.#stop.signal.throwIfAborted();
    this.failures.push({ path: this.#entries.get(entry)?.path ?? "", reason: reasonOf(error) });
    this.changed();
  }
}

/** Why one file is not saved. A browser's own words for that are for programmers. */
function reasonOf(error: unknown): string {
  // A worker reads nothing but files that are there already.
  if (error instanceof HashError) return "What is in its place cannot be read: close it where it is open, or move it away, then save again.";
  if (!(error instanceof DOMException)) return messageOf(error);
  if (error.name === "NoModificationAllowedError") return "It cannot be written to: close it where it is open, then save again.";
  // Chromium looks at what a file may do as it is closed.
  if (error.name === "AbortError") return "The browser does not let such a file be saved here: download it.";
  return "This device could not write it: save again, or download it.";
}

/** The transfer is not this browser's to have now, by the look of it: it is gone, or nobody is signed in. */
function isRefused(error: unknown): boolean {
  return error instanceof DepotError && [401, 403, 404].includes(error.status);
}

/** What the depot has stored is not what was sent to it. */
function isDamaged(error: unknown): boolean {
  return error instanceof DepotError && error.code === "damaged";
}

/** So it is where a transfer is removed. */
function mayBeGone(error: unknown): error is DepotError {
  return error instanceof DepotError && [403, 404, 410].includes(error.status);
}

/** Leaves nothing of a file that is not whole. */
async function giveUp({ file }: Pick<Large, "file">): Promise<void> {
  // It may never have been opened, or what stands in its way may stand in this one's, too.
  await file.then((open) => open.abort()).catch(() => {});
}

function tasksOf(offset: number, length: number, fileSize: number): BlockTask[] {
  const tasks: BlockTask[] = [];
  for (let at = offset; at < offset + length; at += BLOCK_SIZE) {
    tasks.push({ length: Math.min(BLOCK_SIZE, offset + length - at), offset: at, fileSize });
  }
  return tasks;
}
