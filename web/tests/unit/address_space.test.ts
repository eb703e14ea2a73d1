import assert from "node:assert/strict";
import { test } from "node:test";
import { AddressSpace } from "../../src/engine/address_space";
import { compose } from "../../src/engine/compose";
import { BLOCK_SIZE } from "../../src/engine/units";
import { Layout } from "../../src/engine/layout";

/** A small repeatable generator: tests draw from it by seed. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function sizes(seed: number): number[] {
  const next = random(seed);
  return Array.from({ length: 1 + Math.floor(next() * 60) }, () => {
    const kind = next();
    if (kind < 0.1) return 0;
    if (kind < 0.7) return 1 + Math.floor(next() * 20_000);
    if (kind < 0.9) return 1 + Math.floor(next() * (BLOCK_SIZE - 1));
    return BLOCK_SIZE - 1 + Math.floor(next() * 3 * BLOCK_SIZE);
  });
}

test("every byte of every file is in exactly one block, and offered once", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const files = sizes(seed);
    const layout = new Layout();
    const space = new AddressSpace();
    const offered: number[] = [];
    const offer = (runs: readonly (readonly [number, number])[]) => {
      for (const [first, count] of runs) for (let at = 0; at < count; at++) offered.push(first + at);
    };
    files.forEach((size, entry) => {
      const address = layout.append(size);
      if (address !== null) offer(space.append(entry, address, size));
    });
    offer(space.seal());
    assert.deepEqual(offered.sort((a, b) => a - b), Array.from({ length: space.blockCount }, (_, block) => block), `seed ${seed}`);
    const seen = files.map(() => 0);
    for (let block = 0; block < space.blockCount; block++) {
      for (const part of compose(space, [block, 1], () => false)) {
        assert.equal(part.kind, "slice");
        if (part.kind === "slice") seen[part.entry]! += part.end - part.start;
      }
    }
    assert.deepEqual(seen, files, `seed ${seed}`);
  }
});

test("a chunk's body is slices in order of address, neighbours joined", () => {
  const space = new AddressSpace();
  space.append(0, 0, 10);
  space.append(1, BLOCK_SIZE, 2 * BLOCK_SIZE + 5);
  space.append(2, 10, 20);
  space.seal();
  assert.deepEqual(compose(space, [0, 4], () => false), [
    { kind: "slice", entry: 0, start: 0, end: 10 },
    { kind: "slice", entry: 2, start: 0, end: 20 },
    { kind: "slice", entry: 1, start: 0, end: 2 * BLOCK_SIZE + 5 },
  ]);
});

test("a failed file's place is filled with zeros", () => {
  const space = new AddressSpace();
  space.append(0, 0, 10);
  space.append(1, 10, 20);
  space.seal();
  assert.deepEqual(compose(space, [0, 1], (entry) => entry === 0), [
    { kind: "zeros", length: 10 },
    { kind: "slice", entry: 1, start: 0, end: 20 },
  ]);
});
