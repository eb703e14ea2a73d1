import assert from "node:assert/strict";
import { test } from "node:test";
import { BLOCK_SIZE } from "../../src/engine/units";
import { type ChunkId, Upload } from "../../src/engine/upload";
import { type Sent, carry } from "../fake/line";

const GIGABIT = 120_667;
/** What Linux's largest send buffer lets one connection have under way, unless the system was told otherwise. */
const WINDOW = 4_190_000;
/** As measured in Chromium beside a depot on two processors. */
const READS = 220_000;
/** As seen there: connections were idle for 0.2 s longer than a round trip before each request of 32 MiB. */
const GIVES = 160_000;

/** Pseudo-random numbers from 0 to 1, by seed. */
function random(seed: number): () => number {
  let state = seed * 7919;
  return () => (state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32) / 2 ** 32;
}

/** How one file gets over a line, of 1 Gbit/s unless it is said, with connections that compete unequally, beside other tabs that have
 * a share of these. */
function sent(seed: number, bytes: number, roundTrip: number, rate = GIGABIT, tabs = 1): Sent {
  const draw = random(seed);
  const upload = new Upload({ hashing: false });
  upload.handleRoundTrip(roundTrip);
  upload.handleTabs(tabs);
  upload.append(0, 0, bytes);
  upload.seal();
  const weights = Array.from({ length: 6 }, () => 0.5 + draw());
  return carry(upload, { rate, roundTrip, window: WINDOW, weights, reads: READS, gives: GIVES });
}

for (const { bytes, roundTrip, most } of [
  // The line alone takes 4.14 s, and 16.57 s; slow start costs half a second of each. Were connections to wait for the page between
  // requests, it would be 0.4 s more of 2 GB, and 2 s at 200 ms, where the windows are hardly enough.
  { bytes: 5e8, roundTrip: 100, most: 5250 },
  { bytes: 2e9, roundTrip: 100, most: 18_000 },
  { bytes: 2e9, roundTrip: 200, most: 26_500 },
]) {
  test(`${bytes / 1e6} MB at ${roundTrip} ms leave the line neither between requests nor at the end`, () => {
    for (let seed = 1; seed <= 40; seed++) {
      const { time, requests } = sent(seed, bytes, roundTrip);
      assert.ok(time <= most, `seed ${seed}: ${time} ms with ${requests} requests`);
    }
  });
}

for (const [megabits, bytes] of [[10, 1e8], [2, 3e7]] as const) {
  test(`on ${megabits} Mbit/s a call finds a connection in time, and the line is as full`, () => {
    const rate = megabits * 125;
    for (let seed = 1; seed <= 40; seed++) {
      const { time, wait } = sent(seed, bytes, 50, rate);
      assert.ok(wait < 5000, `seed ${seed}: a call waits for ${wait} ms`);
      assert.ok(time < (bytes / rate) * 1.04, `seed ${seed}: ${time} ms`);
    }
  });
}

for (const [tabs, most] of [[2, 1.2], [3, 1.3]] as const) {
  test(`with the share of one of ${tabs} tabs the line carries what is sent, and little of it twice`, () => {
    const rate = 80 * 125;
    for (let seed = 1; seed <= 20; seed++) {
      const { time } = sent(seed, 3e8, 50, rate, tabs);
      assert.ok(time < (3e8 / rate) * most, `seed ${seed}: ${time} ms`);
    }
  });
}

/** Has all be read that may be, and gives the browser all that it may have. */
function given(upload: Upload): ChunkId[] {
  for (let chunk = upload.pollRead(0); chunk; chunk = upload.pollRead(0)) upload.handleRead(chunk.id, [], 0);
  const ids: ChunkId[] = [];
  for (let id = upload.pollSend(0); id !== null; id = upload.pollSend(0)) ids.push(id);
  return ids;
}

/** More than is ever under way. */
function large(options: { hashing: boolean; channels?: number }): Upload {
  const upload = new Upload(options);
  upload.append(0, 0, 1000 * BLOCK_SIZE);
  return upload;
}

test("until everything is declared, a browser's last connection is left for that", () => {
  const upload = large({ hashing: true });
  upload.handleRoundTrip(100);
  assert.equal(given(upload).length, 5);
  upload.seal();
  given(upload);
  assert.equal(upload.progress(0).requests, 6);
});

test("where requests take long, a tab that is not the only busy one calls off all but its share, and declares beside that", () => {
  const upload = large({ hashing: false });
  upload.handleRoundTrip(100);
  upload.handleTabs(2);
  const ids = given(upload);
  assert.equal(ids.length, 2);
  upload.seal();
  ids.push(...given(upload));
  ids.slice(0, 3).forEach((id, at) => upload.handleProgress(id, 3000 - at, 100));
  assert.deepEqual(upload.pollSurplus(3000), [], "they do not take long");
  assert.deepEqual(new Set(upload.pollSurplus(3200)), new Set(ids.slice(2)));
});

test("with all connections taken the browser has two requests more, and with fewer none", () => {
  for (const [channels, requests] of [[5, 5], [6, 8]] as const) {
    const upload = large({ hashing: false, channels });
    upload.seal();
    assert.equal(given(upload).length, requests);
  }
});

test("a request that waits for a connection is no silent one", () => {
  const upload = large({ hashing: false, channels: 6 });
  upload.seal();
  const ids = given(upload);
  ids.slice(0, 6).forEach((id) => upload.handleProgress(id, 1000, 50_000));
  assert.deepEqual(upload.pollStalled(90_000), []);
  assert.deepEqual(upload.pollStalled(111_000), ids, "the line is dead");
});
