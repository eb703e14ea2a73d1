/** Hashes blocks off the main thread. */
import wasm from "../../blake3/blake3.wasm";
import { Blake3, fromHex, toHex } from "./blake3";
import type { BlockTask, HashAnswer, HashedBlock, HashRequest, MergeRequest } from "./protocol";

const scope = self as unknown as {
  onmessage: ((event: MessageEvent<HashRequest | MergeRequest>) => void) | null;
  postMessage(message: HashAnswer, transfer: Transferable[]): void;
};
const loaded = Blake3.load(wasm as Uint8Array<ArrayBuffer>);

scope.onmessage = async ({ data }) => {
  try {
    const blake3 = await loaded;
    if ("merge" in data) {
      scope.postMessage({ id: data.id, merged: toHex(blake3.fileFromPieces(data.merge.map(fromHex))) }, []);
      return;
    }
    const blocks = await hash(blake3, data);
    const bytes = data.bytes instanceof ArrayBuffer ? data.bytes : null;
    scope.postMessage({ id: data.id, blocks, bytes }, bytes ? [bytes] : []);
  } catch (cause) {
    scope.postMessage({ id: data.id, error: cause instanceof Error ? cause.name : String(cause) }, []);
  }
};

async function hash(blake3: Blake3, { bytes, blocks }: HashRequest): Promise<HashedBlock[]> {
  const starts: number[] = [];
  let end = 0;
  for (const block of blocks) {
    starts.push(end);
    end += block.length;
  }
  const read = async (at: number): Promise<Uint8Array> => {
    const from = starts[at]!;
    const length = blocks[at]!.length;
    if (bytes instanceof ArrayBuffer) return new Uint8Array(bytes, from, length);
    return new Uint8Array(await bytes.slice(from, from + length).arrayBuffer());
  };
  const hashed: HashedBlock[] = [];
  let next = read(0);
  for (let at = 0; at < blocks.length; at++) {
    const now = await next;
    // The next block is read while this one is hashed.
    if (at + 1 < blocks.length) {
      next = read(at + 1);
      // Awaited in the next turn; without this a failure in between would count as unhandled.
      next.catch(() => {});
    }
    hashed.push(one(blake3, blocks[at]!, now));
  }
  return hashed;
}

function one(blake3: Blake3, block: BlockTask, bytes: Uint8Array): HashedBlock {
  if ("offset" in block) return { value: toHex(blake3.piece(bytes, block.offset, block.fileSize)) };
  const files = blake3.packed(bytes, block.files);
  return { value: toHex(blake3.packedValue(files)), files: files.map(toHex) };
}
