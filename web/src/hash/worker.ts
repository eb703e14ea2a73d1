/** Hashes blocks off the main thread. */
import wasm from "../../blake3/blake3.wasm";
import { fromHex, toHex } from "../engine/hex";
import { BLOCK_SIZE } from "../engine/units";
import { Blake3 } from "./blake3";
import { type BlockTask, type HashAnswer, type HashedBlock, type HashRequest, type MergeRequest, NO_WEBASSEMBLY, STARTED, type Start } from "./protocol";

declare class FileReaderSync {
  readAsArrayBuffer(blob: Blob): ArrayBuffer;
}

const scope = self as unknown as {
  onmessage: ((event: MessageEvent<HashRequest | MergeRequest>) => void) | null;
  postMessage(message: HashAnswer | Start, transfer: Transferable[]): void;
};
// There is nothing else to do in this thread, and reading in turn costs less than reading ahead.
const reader = new FileReaderSync();
/** `null` where it does not run: the page hears of that, and ends this. */
const loaded = Blake3.load(wasm as Uint8Array<ArrayBuffer>).then(
  (blake3) => {
    scope.postMessage(STARTED, []);
    return blake3;
  },
  (cause: unknown) => {
    // What is there may be forbidden all the same, or too old for the module. Anything else, as a lack of memory, may be otherwise the next time.
    const isForGood = typeof WebAssembly === "undefined" || cause instanceof WebAssembly.CompileError;
    if (isForGood) scope.postMessage(NO_WEBASSEMBLY, []);
    else reportError(cause);
    return null;
  },
);

scope.onmessage = async ({ data }) => {
  const blake3 = await loaded;
  if (!blake3) return;
  try {
    if ("merge" in data) {
      scope.postMessage({ id: data.id, merged: toHex(blake3.fileFromPieces(data.merge.map(fromHex))) }, []);
      return;
    }
    const bytes: ArrayBuffer[] = data.bytes instanceof ArrayBuffer ? [data.bytes] : [];
    const blocks = hash(blake3, data, (read) => data.keep && bytes.push(read));
    scope.postMessage({ id: data.id, blocks, bytes }, bytes);
  } catch (cause) {
    scope.postMessage({ id: data.id, error: cause instanceof Error ? cause.name : String(cause) }, []);
  }
};

/** Read at a time, of what is not kept: larger reads cost a browser much less a byte. */
const READ = 4 * BLOCK_SIZE;

function hash(blake3: Blake3, { bytes, blocks, keep }: HashRequest, handleRead: (read: ArrayBuffer) => void): HashedBlock[] {
  const most = keep ? Infinity : READ;
  const hashed: HashedBlock[] = [];
  let at = 0;
  for (let first = 0; first < blocks.length; ) {
    let next = first;
    let length = 0;
    do length += blocks[next++]!.length;
    while (next < blocks.length && length + blocks[next]!.length <= most);
    let piece: Uint8Array;
    if (bytes instanceof ArrayBuffer) {
      piece = new Uint8Array(bytes, at, length);
    } else {
      const read = reader.readAsArrayBuffer(bytes.slice(at, at + length));
      handleRead(read);
      piece = new Uint8Array(read);
    }
    at += length;
    let from = 0;
    for (const block of blocks.slice(first, next)) {
      hashed.push(one(blake3, block, piece.subarray(from, from + block.length)));
      from += block.length;
    }
    first = next;
  }
  return hashed;
}

function one(blake3: Blake3, block: BlockTask, bytes: Uint8Array): HashedBlock {
  if ("offset" in block) return { value: toHex(blake3.piece(bytes, block.offset, block.fileSize)) };
  const files = blake3.packed(bytes, block.files);
  return { value: toHex(blake3.packedValue(files)), files: files.map(toHex) };
}
