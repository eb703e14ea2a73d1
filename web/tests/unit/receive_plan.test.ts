import assert from "node:assert/strict";
import { test } from "node:test";
import { type Wanted, halves, receivePlan } from "../../src/engine/receive_plan";
import { BLOCK_SIZE } from "../../src/engine/units";

const file = (entry: number, address: number | null, size: number): Wanted => ({ entry, kind: "file", address, size });

test("small files that lie end to end come in one request, never across a block", () => {
  const jobs = [...receivePlan([file(0, 0, 10), file(1, 10, 20), file(2, BLOCK_SIZE, 5), file(3, BLOCK_SIZE + 9, 5)])];
  assert.deepEqual(
    jobs.map((job) => job.kind === "packed" && [job.address, job.length, job.files.map(({ entry }) => entry)]),
    [[0, 30, [0, 1]], [BLOCK_SIZE, 5, [2]], [BLOCK_SIZE + 9, 5, [3]]],
  );
});

test("a large file between them does not part small files that share a block", () => {
  const jobs = [...receivePlan([file(0, 0, 10), file(1, BLOCK_SIZE, 5 * BLOCK_SIZE + 1), file(2, 10, 3)])];
  assert.deepEqual(
    jobs.map((job) => (job.kind === "pieces" ? [job.offset / BLOCK_SIZE, job.length] : job.kind === "packed" && job.length)),
    [[0, 4 * BLOCK_SIZE], [4, BLOCK_SIZE + 1], 13],
  );
});

test("files without bytes are made, folders and links are not fetched", () => {
  const link: Wanted = { entry: 1, kind: "symlink", address: null, size: 0 };
  assert.deepEqual([...receivePlan([file(0, null, 0), link])].map(({ kind }) => kind), ["empty"]);
});

test("a run of small files is halved into runs that lie end to end", () => {
  const [job] = receivePlan([file(4, 100, 10), file(5, 110, 20), file(6, 130, 5)]);
  assert.ok(job?.kind === "packed");
  const [first, second] = halves(job);
  assert.deepEqual([first?.address, first?.length, first?.files.map(({ entry }) => entry)], [100, 10, [4]]);
  assert.deepEqual([second?.address, second?.length, second?.files.map(({ entry }) => entry)], [110, 25, [5, 6]]);
});
