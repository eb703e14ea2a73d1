// Reads that fail, and what is found to blame for them.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { DepotError } from "../../src/api/error";
import { Upload } from "../../src/engine/upload";
import { type HashPool, WorkerFailed } from "../../src/hash/pool";
import { Courier } from "../../src/send/courier";
import { Sources } from "../../src/send/sources";

/** Of which so many bytes can be read. */
function file(size: number, readable: number): File {
  const slice = (start: number, end: number) => new Blob([new Uint8Array(Math.max(0, Math.min(end, readable) - start))]);
  return { size, slice } as unknown as File;
}

test("a file of which fewer bytes come than it had has changed", async () => {
  const sources = new Sources();
  sources.set(0, file(100, 100));
  sources.set(1, file(100, 60));
  const parts = [0, 1].map((entry) => ({ kind: "slice" as const, entry, start: 0, end: 100 }));
  assert.deepEqual(await sources.failures(parts, false), []);
  assert.deepEqual((await sources.failures(parts, true)).map(({ entry, cause }) => [entry, cause]), [[1, "changed"]]);
});

/** A whole drive had come back between the look at a file and the look at those beside it: the file was given up for gone. */
test("a drive that comes back while files are looked at has taken none with it", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const upload = new Upload({ hashing: false, channels: 1 });
  for (const entry of [0, 1]) upload.append(entry, 4 * 1024 * 1024 * entry, 4 * 1024 * 1024);
  upload.seal();
  const sources = new Sources();
  for (const entry of [0, 1]) sources.set(entry, file(4 * 1024 * 1024, 4 * 1024 * 1024));
  let looks = 0;
  t.mock.method(sources, "body", () => Promise.reject(new Error("away")));
  t.mock.method(sources, "failures", async () => (looks++ === 0 ? [{ entry: 0, cause: "vanished", detail: "" }] : []));
  const failed: number[] = [];
  const courier = new Courier(upload, sources, null, {
    failed: ({ entry }) => failed.push(entry), reported: async () => true, changed: () => {}, answered: () => {}, refused: () => {},
  });
  courier.pump();
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  assert.ok(looks >= 2);
  assert.deepEqual(failed, []);
  courier.close();
});

/** An upload of one file, and a clock that stands. */
function oneFile(t: TestContext) {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const clock = { now: 0 };
  t.mock.method(performance, "now", () => clock.now);
  const upload = new Upload({ hashing: false, channels: 1 });
  upload.append(0, 0, 100);
  upload.seal();
  const sources = new Sources();
  sources.set(0, file(100, 100));
  return { clock, upload, sources };
}

/** A courier that pauses with what it refuses. */
function pausing(upload: Upload, sources: Sources, hashers: HashPool | null) {
  const refused: DepotError[] = [];
  const courier: Courier = new Courier(upload, sources, hashers, {
    failed: () => assert.fail("no file is to blame"), reported: async () => true, changed: () => {}, answered: () => {},
    refused: (error) => {
      refused.push(error);
      courier.pause();
    },
  });
  return { courier, refused };
}

test("what cannot be read though each of its files can is not tried for ever, and is said", async (t) => {
  const { clock, upload, sources } = oneFile(t);
  let reads = 0;
  t.mock.method(sources, "body", () => (reads++, Promise.reject(new Error("no"))));
  const { courier, refused } = pausing(upload, sources, null);
  courier.pump();
  while (refused.length === 0) {
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    clock.now += 30_001;
    t.mock.timers.tick(30_001);
  }
  assert.deepEqual([reads, refused[0]!.code], [8, "unreadable"]);
  courier.close();
});

/** A courier whose hash workers do not start, what it refused, and what a look at their script finds: a status, or `null` where none comes. */
function withoutWorkers(t: TestContext) {
  const { clock, upload, sources } = oneFile(t);
  Object.assign(globalThis, { HASH_WORKER: "/assets/hash-worker.js" });
  const script: { status: number | null; looks: number } = { status: 200, looks: 0 };
  t.mock.method(globalThis, "fetch", async () => {
    script.looks++;
    if (script.status === null) throw new TypeError("Failed to fetch");
    return new Response(null, { status: script.status });
  });
  const hashers = { hash: () => Promise.reject(new WorkerFailed("no")) } as unknown as HashPool;
  const { courier, refused } = pausing(upload, sources, hashers);
  t.after(() => courier.close());
  const pass = async (milliseconds: number) => {
    clock.now += milliseconds;
    t.mock.timers.tick(milliseconds);
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  return { courier, script, refused, pass };
}

const NO_WORKER = /^The page cannot start what computes hashes: reload it, then resume from the list of transfers\.$/;

test("where the hash workers' script is gone, as the depot was upgraded, that is said at once", async (t) => {
  const { courier, script, refused, pass } = withoutWorkers(t);
  script.status = 404;
  courier.open("t");
  courier.pump();
  await pass(0);
  assert.equal(refused.length, 1);
  assert.match(refused[0]!.message, NO_WORKER);
});

test("a lost network that keeps the hash workers' script away is waited out, however long", async (t) => {
  const { courier, script, refused, pass } = withoutWorkers(t);
  script.status = null;
  courier.open("t");
  courier.pump();
  for (let attempt = 0; attempt < 30; attempt++) await pass(30_001);
  assert.ok(script.looks >= 20, `${script.looks} looks`);
  script.status = 503;
  for (let attempt = 0; attempt < 30; attempt++) await pass(30_001);
  assert.equal(refused.length, 0);
  script.status = 404;
  await pass(30_001);
  assert.match(refused[0]!.message, NO_WORKER);
});

test("there is nothing to go on with from the list before the depot has made the transfer", async (t) => {
  const { courier, script, refused, pass } = withoutWorkers(t);
  script.status = 404;
  courier.pump();
  for (let attempt = 0; attempt < 3; attempt++) await pass(30_001);
  assert.equal(refused.length, 0);
  courier.open("t");
  await pass(30_001);
  assert.equal(refused.length, 1);
});

test("hash workers that do not start though their script is there are tried ten times", async (t) => {
  const { courier, script, refused, pass } = withoutWorkers(t);
  courier.open("t");
  courier.pump();
  while (refused.length === 0) await pass(30_001);
  assert.match(refused[0]!.message, NO_WORKER);
  assert.equal(script.looks, 10);
});

/** A courier whose drive is away, and its clock. */
function away(t: TestContext) {
  const { clock, upload, sources } = oneFile(t);
  let looks = 0;
  t.mock.method(sources, "body", () => Promise.reject(new Error("away")));
  t.mock.method(sources, "failures", async () => (looks++, [{ entry: 0, cause: "vanished", detail: "" }]));
  t.mock.method(sources, "canReadBeside", async () => false);
  const failed: number[] = [];
  const courier = new Courier(upload, sources, null, {
    failed: ({ entry }) => failed.push(entry), reported: async () => true, changed: () => {}, answered: () => {}, refused: () => {},
  });
  t.after(() => courier.close());
  const settle = async () => {
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  const pass = async (milliseconds: number) => {
    clock.now += milliseconds;
    t.mock.timers.tick(Math.min(milliseconds, 10_000));
    await settle();
  };
  return { courier, failed, settle, pass, looks: () => looks };
}

test("what was away before a pause is waited for anew after it", async (t) => {
  const { courier, failed, settle, pass, looks } = away(t);
  courier.open("t");
  courier.pump();
  await settle();
  courier.pause();
  for (let second = 0; second < 120; second++) await pass(1000);
  const before = looks();
  courier.resume();
  await settle();
  await pass(5000);
  assert.ok(looks() > before);
  assert.deepEqual(failed, []);
  for (let second = 0; second < 70; second++) await pass(1000);
  assert.deepEqual(failed, [0], "as long as ever");
});

test("in a page that is hidden, whose timers run once a minute, what is away is given up as well", async (t) => {
  const { courier, failed, settle, pass } = away(t);
  courier.open("t");
  courier.pump();
  await settle();
  for (let minute = 0; minute < 5; minute++) await pass(60_000);
  assert.deepEqual(failed, [0]);
});

test("what was away before the machine slept is waited for anew after it", async (t) => {
  const { courier, failed, settle, pass, looks } = away(t);
  courier.open("t");
  courier.pump();
  await settle();
  for (let second = 0; second < 10; second++) await pass(1000);
  const before = looks();
  await pass(3_600_000);
  assert.ok(looks() > before);
  assert.deepEqual(failed, []);
  for (let second = 0; second < 70; second++) await pass(1000);
  assert.deepEqual(failed, [0], "as long as ever");
});
