/** A few hash workers; each task goes to the one with the least to do. */
import type { BlockShape } from "../engine/address_space";
import type { BlockTask, HashAnswer, HashedBlock, HashRequest } from "./protocol";

export interface Hashed {
  readonly blocks: HashedBlock[];
  /** The bytes given, handed back; `null` when a `Blob` was given. */
  readonly bytes: ArrayBuffer | null;
}

/** The bytes could not be read: `message` is the browser's name for why. */
export class HashError extends Error {}

interface Waiting {
  resolve(hashed: Hashed): void;
  reject(error: HashError): void;
}

interface Member {
  readonly worker: Worker;
  readonly waiting: Map<number, Waiting>;
}

export class HashPool {
  readonly #members: Member[] = [];
  #nextId = 1;

  constructor(size = Math.max(1, Math.min(4, (navigator.hardwareConcurrency || 2) - 1, 4))) {
    for (let at = 0; at < size; at++) this.#members.push(this.#start());
  }

  hash(bytes: Blob | ArrayBuffer, blocks: readonly BlockTask[]): Promise<Hashed> {
    const member = this.#members.reduce((a, b) => (b.waiting.size < a.waiting.size ? b : a));
    const request: HashRequest = { id: this.#nextId++, bytes, blocks };
    return new Promise((resolve, reject) => {
      member.waiting.set(request.id, { resolve, reject });
      member.worker.postMessage(request, bytes instanceof ArrayBuffer ? [bytes] : []);
    });
  }

  close(): void {
    for (const { worker, waiting } of this.#members) {
      worker.terminate();
      for (const { reject } of waiting.values()) reject(new HashError("closed"));
      waiting.clear();
    }
  }

  #start(): Member {
    const member: Member = { worker: new Worker(HASH_WORKER), waiting: new Map() };
    member.worker.onmessage = ({ data }: MessageEvent<HashAnswer>) => {
      const waiting = member.waiting.get(data.id);
      member.waiting.delete(data.id);
      if ("error" in data) waiting?.reject(new HashError(data.error));
      else waiting?.resolve({ blocks: data.blocks, bytes: data.bytes });
    };
    member.worker.onerror = () => {
      for (const { reject } of member.waiting.values()) reject(new HashError("the hash worker failed"));
      member.waiting.clear();
    };
    return member;
  }
}

/** What a worker needs to know of a block. */
export function taskOf(shape: BlockShape): BlockTask {
  return shape.kind === "piece"
    ? { length: shape.length, offset: shape.offset, fileSize: shape.fileSize }
    : { length: shape.length, files: shape.files.map((file) => file.length) };
}
