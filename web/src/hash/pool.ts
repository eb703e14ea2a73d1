/** A few hash workers; each task goes to the one with the least to do. */
import { SILENCE } from "../api/whole";
import type { BlockShape } from "../engine/address_space";
import { type Lack, hashing } from "./lack";
import { type BlockTask, type HashAnswer, type HashedBlock, type HashRequest, type MergeRequest, NO_WEBASSEMBLY, STARTED, type Start } from "./protocol";

/** One hashes faster than most networks carry. */
const MOST_WORKERS = 2;

export interface Hashed {
  readonly blocks: HashedBlock[];
  /** The bytes given, handed back; of a `Blob`, what was read, in one piece, if it was to be kept. */
  readonly bytes: ArrayBuffer[];
}

/** The bytes could not be read: `message` is the browser's name for why. */
export class HashError extends Error {}

/** A worker did not start, or broke off. */
export class WorkerFailed extends HashError {}

/** No worker would start in this browser, however often it is tried. */
export class CannotHash extends WorkerFailed {
  constructor(readonly lack: Lack) {
    super(`no ${lack}`);
  }
}

interface Waiting {
  resolve(answer: HashAnswer): void;
  reject(error: HashError): void;
}

/** A worker, and whether it has its script. */
interface Running {
  /** `null` where the browser does not let the page start one. */
  readonly worker: Worker | null;
  readonly started: Promise<void>;
  /** Ends it, and what waits for it: it does not tell of its own end. */
  end(why: HashError): void;
}

interface Member {
  /** `null` from when it failed until there is something to do again. */
  running: Running | null;
  readonly waiting: Map<number, Waiting>;
}

export class HashPool {
  readonly #members: Member[] = [];
  #nextId = 1;
  #closed = false;

  constructor(size = Math.min(Math.max(navigator.hardwareConcurrency || 2, 1), MOST_WORKERS)) {
    for (let at = 0; at < size; at++) {
      const member: Member = { running: null, waiting: new Map() };
      this.#members.push(member);
      this.#running(member);
    }
  }

  async hash(bytes: Blob | ArrayBuffer, blocks: readonly BlockTask[], keep = false): Promise<Hashed> {
    const answer = await this.#ask({ id: this.#nextId++, bytes, blocks, keep }, bytes instanceof ArrayBuffer ? [bytes] : []);
    if (!("blocks" in answer)) throw new HashError("error" in answer ? answer.error : "unexpected answer");
    return answer;
  }

  /** A large file's hash from the values of all of its blocks. */
  async merge(values: readonly string[]): Promise<string> {
    const answer = await this.#ask({ id: this.#nextId++, merge: values }, []);
    if (!("merged" in answer)) throw new HashError("error" in answer ? answer.error : "unexpected answer");
    return answer.merged;
  }

  /** What is asked for now and later fails. */
  close(): void {
    this.#closed = true;
    for (const { running } of this.#members) running?.end(new HashError("closed"));
  }

  /** Resolves when all workers have their scripts; those that failed are started again for that. Rejects when one fails. What they are given
   * before is lost with them. */
  async started(): Promise<void> {
    if (this.#closed) throw new HashError("closed");
    await Promise.all(this.#members.map((member) => this.#running(member).started));
  }

  #ask(request: HashRequest | MergeRequest, transfer: Transferable[]): Promise<HashAnswer> {
    if (this.#closed) return Promise.reject(new HashError("closed"));
    const member = this.#members.reduce((a, b) => (b.waiting.size < a.waiting.size ? b : a));
    const { worker } = this.#running(member);
    if (!worker) return Promise.reject(new CannotHash("workers"));
    return new Promise((resolve, reject) => {
      member.waiting.set(request.id, { resolve, reject });
      worker.postMessage(request, transfer);
    });
  }

  /** Of a member that failed, a new one. */
  #running(member: Member): Running {
    return (member.running ??= this.#run(member));
  }

  #run(member: Member): Running {
    const worker = startWorker();
    let fail: (why: HashError) => void = () => {};
    const end = (why: HashError) => {
      clearTimeout(late);
      worker?.terminate();
      member.running = null;
      fail(why);
      for (const { reject } of member.waiting.values()) reject(why);
      member.waiting.clear();
    };
    // A browser waits for its script as long as for any other answer.
    const late = setTimeout(() => end(new WorkerFailed("the hash worker's script did not come")), SILENCE);
    const started = new Promise<void>((resolve, reject) => {
      fail = reject;
      if (!worker) return reject(new CannotHash("workers"));
      worker.onmessage = ({ data }: MessageEvent<HashAnswer | Start>) => {
        if (data === STARTED) {
          clearTimeout(late);
          return resolve();
        }
        if (data === NO_WEBASSEMBLY) {
          hashing.handleLack("WebAssembly");
          return end(new CannotHash("WebAssembly"));
        }
        member.waiting.get(data.id)?.resolve(data);
        member.waiting.delete(data.id);
      };
      // Mostly its script did not arrive, as the network was lost: it is asked for again with the next task.
      worker.onerror = () => end(new WorkerFailed("the hash worker failed"));
    });
    // Not everybody waits for that.
    started.catch(() => {});
    return { worker, started, end };
  }
}

/** `null` where the browser's settings forbid it: to some that is an error right here. */
function startWorker(): Worker | null {
  try {
    return new Worker(HASH_WORKER);
  } catch {
    hashing.handleLack("workers");
    return null;
  }
}

let prepared: HashPool | null = null;

/** Starts workers for what will be sent next: loading their script takes round trips, as browsers keep none from a depot whose
 * certificate they do not trust by themselves. */
export function prepareHashers(): void {
  prepared ??= new HashPool();
}

/** Workers for what is sent with these options: none where hashing is switched off. Whoever has them closes them. */
export function hashersFor({ hashing }: { readonly hashing: boolean }): HashPool | null {
  if (!hashing) return null;
  const pool = prepared ?? new HashPool();
  prepared = null;
  return pool;
}

/** What a worker needs to know of a block. */
export function taskOf(shape: BlockShape): BlockTask {
  return shape.kind === "piece"
    ? { length: shape.length, offset: shape.offset, fileSize: shape.fileSize }
    : { length: shape.length, files: shape.files.map((file) => file.length) };
}
