import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { blake3 as reference } from "@noble/hashes/blake3.js";
import { BLOCK_SIZE } from "../../src/engine/units";
import { toHex } from "../../src/engine/hex";
import { Blake3 } from "../../src/hash/blake3";

const blake3 = await Blake3.load(readFileSync(new URL("../../blake3/blake3.wasm", import.meta.url)));

function content(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at++) bytes[at] = (Math.imul(at, 2_654_435_761) >>> 13) & 255;
  return bytes;
}

test("whole files hash as another implementation hashes them, at every edge of the tree", () => {
  const edges = [0, 1, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 2048, 2049, 3072, 3073, 4096, 4097, 5120, 5121];
  for (const length of [...edges, 6144, 7168, 8192, 8193, 16384, 31744, 102400, 1_000_003, BLOCK_SIZE - 1, BLOCK_SIZE]) {
    assert.equal(toHex(blake3.file(content(length))), toHex(reference(content(length))), `${length} bytes`);
  }
});

test("block values merge into the file's ordinary hash, whatever order they were hashed in", () => {
  for (const size of [BLOCK_SIZE, BLOCK_SIZE + 1, 2 * BLOCK_SIZE, 3 * BLOCK_SIZE + 77, 5 * BLOCK_SIZE - 1]) {
    const bytes = content(size);
    const values: Uint8Array[] = [];
    for (let block = Math.ceil(size / BLOCK_SIZE) - 1; block >= 0; block--) {
      const offset = block * BLOCK_SIZE;
      values[block] = blake3.piece(bytes.subarray(offset, offset + BLOCK_SIZE), offset, size);
    }
    assert.equal(toHex(blake3.fileFromPieces(values)), toHex(reference(bytes)), `${size} bytes`);
  }
});

test("a packed block's value is derived from its files' hashes", () => {
  const lengths = [1, 1000, 1024, 40_000, 7];
  const bytes = content(lengths.reduce((sum, length) => sum + length));
  const files = blake3.packed(bytes, lengths);
  assert.equal(toHex(files[3]!), toHex(reference(bytes.subarray(2025, 42_025))));
  const material = Buffer.concat(files);
  const context = new TextEncoder().encode("terahaul 1 packed block");
  assert.equal(toHex(blake3.packedValue(files)), toHex(reference(material, { context })));
  assert.equal(toHex(blake3.file(bytes)), toHex(reference(bytes)), "plain hashing is back to the plain key");
});

test("pieces far into a large file keep their place", () => {
  // Chunk counters beyond 32 bits: equal bytes at other offsets have other values.
  const bytes = content(5000);
  const far = 2 ** 42 + 3 * BLOCK_SIZE;
  const values = new Set([0, BLOCK_SIZE, far, far + BLOCK_SIZE].map((at) => toHex(blake3.piece(bytes, at, 2 ** 43))));
  assert.equal(values.size, 4);
});
