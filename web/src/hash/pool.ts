/** A few hash workers; each task goes to the one with the least to do. */
import type { BlockShape } from "../engine/address_space";
import { type BlockTask, type HashAnswer, type HashedBlock, type HashRequest, type MergeRequest, STARTED } from "./protocol";

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

interface Waiting {
  resolve(answer: HashAnswer): void;
  reject(error: HashError): void;
}

/** A worker, and whether it has its script. */
interface Running {
  readonly worker: Worker;
  readonly started: Promise<void>;
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
    for (const { running, waiting } of this.#members) {
      running?.worker.terminate();
      for (const { reject } of waiting.values()) reject(new HashError("closed"));
      waiting.clear();
    }
  }

  /** Resolves when all workers have their scripts; those that failed are started again for that. Rejects when one fails. What they are given
   * before is lost with them. */
  async started(): Promise<void> {
    await Promise.all(this.#members.map((member) => this.#running(member).started));
  }

  #ask(request: HashRequest | MergeRequest, transfer: Transferable[]): Promise<HashAnswer> {
    if (this.#closed) return Promise.reject(new HashError("closed"));
    const member = this.#members.reduce((a, b) => (b.waiting.size < a.waiting.size ? b : a));
    return new Promise((resolve, reject) => {
      member.waiting.set(request.id, { resolve, reject });
      this.#running(member).worker.postMessage(request, transfer);
    });
  }

  /** Of a member that failed, a new one. */
  #running(member: Member): Running {
    return (member.running ??= this.#run(member));
  }

  #run(member: Member): Running {
    const worker = new Worker(HASH_WORKER);
    const started = new Promise<void>((resolve, reject) => {
      worker.onmessage = ({ data }: MessageEvent<HashAnswer | typeof STARTED>) => {
        if (data === STARTED) return resolve();
        member.waiting.get(data.id)?.resolve(data);
        member.waiting.delete(data.id);
      };
      // Mostly its script did not arrive, as the network was lost: it is asked for again with the next task.
      worker.onerror = () => {
        worker.terminate();
        member.running = null;
        const failed = new WorkerFailed("the hash worker failed");
        reject(failed);
        for (const { reject } of member.waiting.values()) reject(failed);
        member.waiting.clear();
      };
    });
    // Not everybody waits for that.
    started.catch(() => {});
    return { worker, started };
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
