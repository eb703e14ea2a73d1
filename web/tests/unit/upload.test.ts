import assert from "node:assert/strict";
import { test } from "node:test";
import { BLOCK_SIZE, type BlockRun } from "../../src/engine/units";
import { type BlockValue, type Chunk, Upload, type UploadOptions } from "../../src/engine/upload";

const MiB = 1024 * 1024;

function values(chunk: Chunk, text = "v"): BlockValue[] {
  return Array.from({ length: chunk.run[1] }, (_, at) => ({ block: chunk.run[0] + at, value: `${text}${chunk.run[0] + at}` }));
}

function oneFile(blocks: number, options: UploadOptions = { hashing: true, channels: 2 }): Upload {
  const upload = new Upload(options);
  upload.append(0, 0, blocks * BLOCK_SIZE);
  upload.seal();
  return upload;
}

/** Reads the chunk, and sends it: nothing else is ready. */
function send(upload: Upload, chunk: Chunk, now: number, text = "v"): void {
  upload.handleRead(chunk.id, values(chunk, text), now);
  assert.equal(upload.pollSend(now), chunk.id);
}

function deliver(upload: Upload, chunk: Chunk, now: number): void {
  send(upload, chunk, now);
  assert.deepEqual(upload.handleReceived(chunk.id, values(chunk), now, 0), []);
}

function takeAll(upload: Upload, now: number): Chunk[] {
  const chunks: Chunk[] = [];
  for (let chunk = upload.pollRead(now); chunk; chunk = upload.pollRead(now)) chunks.push(chunk);
  return chunks;
}

test("every block is sent exactly once when nothing goes wrong", () => {
  const upload = oneFile(100);
  const sent: number[] = [];
  for (let now = 0; !upload.delivered; now += 100) {
    for (const chunk of takeAll(upload, now)) {
      for (let at = 0; at < chunk.run[1]; at++) sent.push(chunk.run[0] + at);
      deliver(upload, chunk, now + 50);
    }
  }
  assert.deepEqual(sent, Array.from({ length: 100 }, (_, at) => at));
  assert.equal(upload.progress(0).done, 100 * BLOCK_SIZE);
});

test("no more requests than channels, and one more chunk is read for when one is answered", () => {
  const upload = oneFile(100);
  const chunks = takeAll(upload, 0);
  assert.equal(chunks.length, 3);
  const [third, first, second] = chunks as [Chunk, Chunk, Chunk];
  for (const [at, chunk] of [first, second, third].entries()) upload.handleRead(chunk.id, values(chunk), at);
  assert.deepEqual([upload.pollSend(5), upload.pollSend(5), upload.pollSend(5)], [first.id, second.id, null], "as they became ready");
  assert.equal(upload.progress(5).requests, 2);
  assert.equal(upload.pollRead(5), null);
  upload.handleReceived(first.id, values(first), 10, 0);
  assert.equal(upload.pollSend(10), third.id);
  assert.ok(upload.pollRead(10));
});

test("a chunk is done only when both ends' values agree", () => {
  const upload = oneFile(2, { hashing: true, channels: 1 });
  const [chunk] = takeAll(upload, 0);
  upload.handleRead(chunk!.id, values(chunk!), 0);
  assert.equal(upload.progress(0).done, 0);
  assert.equal(upload.pollSend(0), chunk!.id);
  upload.handleReceived(chunk!.id, values(chunk!), 0, 0);
  assert.equal(upload.progress(0).done, chunk!.bytes);
});

test("blocks whose values differ are sent again, alone, after a wait", () => {
  const upload = oneFile(8, { hashing: true, channels: 1 });
  const chunk = oneOf(upload, 0);
  assert.deepEqual(chunk.run, [0, 2]);
  send(upload, chunk, 0);
  assert.deepEqual(upload.handleReceived(chunk.id, [{ block: 0, value: "v0" }, { block: 1, value: "broken" }], 0, 1), []);
  assert.equal(upload.progress(0).done, BLOCK_SIZE);
  assert.equal(upload.pollTimeout(0), 250);
  const again = oneOf(upload, 250);
  assert.deepEqual([again.run, again.attempt], [[1, 1], 2]);
});

test("a block that the depot did not take is sent again alone, and the others of its request together", () => {
  const upload = oneFile(4, { hashing: true, channels: 1, chunk: 4 * BLOCK_SIZE });
  const chunk = oneOf(upload, 0);
  send(upload, chunk, 0);
  assert.deepEqual(upload.handleMismatch(chunk.id, 2, 0, 1), []);
  const others = takeAll(upload, 0);
  assert.deepEqual(others.map(({ run }) => run), [[0, 2], [3, 1]]);
  others.forEach((other) => deliver(upload, other, 1));
  assert.deepEqual(oneOf(upload, 250).run, [2, 1]);
});

test("a file of which the depot never takes a block is given up and named", () => {
  const upload = oneFile(1, { hashing: true, channels: 1 });
  const given = [0, 60_000, 120_000].map((now) => {
    const chunk = oneOf(upload, now);
    send(upload, chunk, now);
    return upload.handleMismatch(chunk.id, 0, now, 0);
  });
  assert.deepEqual(given, [[], [], [0]]);
});

test("everything is under way while the last requests are, and no more when something is to be sent again", () => {
  const upload = oneFile(4, { hashing: true, channels: 2, chunk: 2 * BLOCK_SIZE });
  const [first, second] = takeAll(upload, 0) as [Chunk, Chunk];
  send(upload, first, 0);
  assert.equal(upload.underWay, false, "one is being read");
  send(upload, second, 0);
  assert.ok(upload.underWay);
  upload.handleReceived(first.id, values(first), 1, 0);
  assert.ok(upload.underWay);
  upload.handleLost(second.id, 1, 0, true);
  assert.equal(upload.underWay, false);
  deliver(upload, oneOf(upload, 60_000), 60_000);
  assert.ok(upload.underWay && upload.delivered);
});

test("nothing is under way before everything is declared, nor in a pause", () => {
  const upload = new Upload({ hashing: true, channels: 1 });
  upload.append(0, 0, BLOCK_SIZE);
  send(upload, oneOf(upload, 0), 0);
  assert.equal(upload.underWay, false);
  upload.seal();
  assert.ok(upload.underWay);
  upload.pause();
  assert.equal(upload.underWay, false);
});

/** The next chunk to read at `now`. */
function oneOf(upload: Upload, now: number): Chunk {
  const chunk = upload.pollRead(now);
  assert.ok(chunk, "a chunk may be read");
  return chunk;
}

test("a file whose bytes never come out the same is given up and named", () => {
  const upload = oneFile(1, { hashing: true, channels: 1 });
  let given: number[] = [];
  for (let now = 0; given.length === 0 && now < 1e6; now += 60_000) {
    const chunk = oneOf(upload, now);
    send(upload, chunk, now, "new");
    given = upload.handleReceived(chunk.id, values(chunk, "old"), now, 0);
  }
  assert.deepEqual(given, [0]);
  upload.handleFailed(0);
  assert.ok(upload.delivered, "nothing is left to send");
});

test("a lost chunk waits, the rest waits for the depot, and what is durable is not sent again", () => {
  const upload = oneFile(20, { hashing: true, channels: 1 });
  const chunk = oneOf(upload, 0);
  assert.deepEqual(chunk.run, [0, 2]);
  upload.handleLost(chunk.id, 0, 1, false);
  assert.equal(upload.pollRead(60_000), null, "unreachable");
  upload.handleReachable([[0, 1]]);
  assert.equal(upload.pollTimeout(0), 250);
  const next = oneOf(upload, 1);
  assert.deepEqual([next.run[0], next.attempt], [2, 1], "other blocks do not wait for it");
  deliver(upload, next, 2);
  const again = oneOf(upload, 250);
  assert.deepEqual([again.run, again.attempt], [[1, 1], 2]);
});

test("back-off grows with each failure of the same chunk", () => {
  const upload = oneFile(1, { hashing: true, channels: 1 });
  const waits: number[] = [];
  let now = 0;
  for (let failure = 0; failure < 4; failure++) {
    upload.handleLost(oneOf(upload, now).id, now, 1, true);
    waits.push(upload.pollTimeout(now)! - now);
    now = upload.pollTimeout(now)!;
  }
  assert.deepEqual(waits, [250, 500, 1000, 2000]);
});

test("what is overdue while all requests are under way is waited for with the next answer, and not by the clock", () => {
  const upload = oneFile(50);
  const [lost, ...others] = takeAll(upload, 0) as [Chunk, Chunk, Chunk];
  upload.handleLost(lost.id, 0, 1, true);
  for (const chunk of [...others, oneOf(upload, 0)]) upload.handleRead(chunk.id, values(chunk), 0);
  assert.deepEqual([upload.pollRead(1000), upload.pollTimeout(1000)], [null, null]);
  upload.handleReceived(upload.pollSend(1000)!, values(others[0]), 1100, 0);
  assert.deepEqual(oneOf(upload, 1100).run, lost.run);
});

test("a depot that takes nothing is not sent to all the time", () => {
  const upload = oneFile(5000, { hashing: true });
  upload.handleRoundTrip(1);
  const flights: { chunk: Chunk; ends: number }[] = [];
  let requests = 0;
  const step = (now: number, answered: (chunk: Chunk) => void) => {
    for (const flight of flights.splice(0)) {
      if (flight.ends <= now) answered(flight.chunk);
      else flights.push(flight);
    }
    for (const chunk of takeAll(upload, now)) {
      upload.handleRead(chunk.id, values(chunk), now);
      flights.push({ chunk, ends: Infinity });
    }
    for (let id = upload.pollSend(now); id !== null; id = upload.pollSend(now)) {
      requests++;
      flights.find(({ chunk }) => chunk.id === id)!.ends = now + 100;
    }
  };
  for (let now = 0; now < 60_000; now += 10) step(now, (chunk) => upload.handleLost(chunk.id, now, 0.5, true));
  assert.ok(requests > 20 && requests < 80, `${requests}`);
  const timeout = upload.pollTimeout(60_000)!;
  assert.ok(timeout <= 60_000 + 30_000, `${timeout}`);
  const before = requests;
  for (let now = timeout; now < timeout + 2000; now += 10) {
    step(now, (chunk) => upload.handleReceived(chunk.id, values(chunk), now, 0.5));
  }
  assert.ok(requests - before > 30, "at once, when it takes one");
});

test("a pause calls off what is on its way and loses nothing", () => {
  const upload = oneFile(50);
  const flights = takeAll(upload, 0);
  assert.deepEqual(upload.pause(), flights.map((chunk) => chunk.id));
  for (const chunk of flights) upload.handleAborted(chunk.id, 5);
  assert.equal(upload.pollRead(5), null);
  upload.resume();
  assert.deepEqual(oneOf(upload, 6).run, flights[0]!.run);
});

test("small files wait until their block is closed", () => {
  const upload = new Upload({ hashing: true, channels: 3 });
  upload.append(0, 0, 100);
  upload.append(1, 100, 200);
  assert.equal(upload.pollRead(0), null, "the block may still grow");
  upload.append(2, BLOCK_SIZE, 3 * MiB);
  assert.deepEqual(oneOf(upload, 0).run, [0, 1]);
  assert.equal(upload.pollRead(0), null);
  upload.seal();
  assert.deepEqual(oneOf(upload, 0).run, [1, 1]);
});

test("a large file between small ones leaves their block open", () => {
  const upload = new Upload({ hashing: false, channels: 3 });
  upload.append(0, 0, 100);
  upload.append(1, BLOCK_SIZE, BLOCK_SIZE);
  upload.append(2, 100, 50);
  assert.deepEqual(oneOf(upload, 0).run, [1, 1]);
  upload.seal();
  const small = oneOf(upload, 0);
  assert.deepEqual([small.run, small.bytes], [[0, 1], 150]);
});

test("a block that began with a failed file is sent for those that came into it later", () => {
  const upload = new Upload({ hashing: false });
  upload.append(0, 0, 100);
  upload.handleFailed(0);
  upload.append(1, 100, 50);
  upload.seal();
  assert.deepEqual(takeAll(upload, 0).map(({ run }) => run), [[0, 1]]);
  assert.equal(upload.delivered, false);
});

test("a failed file gives its blocks up and its neighbours are still sent", () => {
  const upload = new Upload({ hashing: true, channels: 1 });
  upload.append(0, 0, 4 * BLOCK_SIZE);
  upload.append(1, 4 * BLOCK_SIZE, 10);
  upload.append(2, 4 * BLOCK_SIZE + 10, 10);
  upload.seal();
  const chunk = oneOf(upload, 0);
  assert.deepEqual(upload.handleFailed(0), [chunk.id]);
  upload.handleAborted(chunk.id, 0);
  assert.deepEqual(upload.handleFailed(1), []);
  const rest = oneOf(upload, 0);
  assert.deepEqual(rest.run, [4, 1], "one of its two files is still wanted");
  deliver(upload, rest, 1);
  assert.ok(upload.delivered);
  assert.deepEqual([upload.progress(1).total, upload.progress(1).done], [10, 10]);
});

test("a block of small files is wanted until the last of them has failed", () => {
  const upload = new Upload({ hashing: true, channels: 1 });
  for (const entry of [0, 1, 2]) upload.append(entry, entry * 10, 10);
  upload.seal();
  for (const entry of [2, 0, 0]) upload.handleFailed(entry);
  assert.equal(upload.delivered, false);
  upload.handleFailed(1);
  assert.ok(upload.delivered);
});

test("while a device is away nothing else is tried, and everything as soon as something can be read", () => {
  const upload = oneFile(100, { hashing: true, channels: 2, chunk: BLOCK_SIZE });
  const [first, second] = takeAll(upload, 0) as [Chunk, Chunk];
  upload.handleUnread(first.id, 0, 1, true);
  assert.equal(upload.pollRead(249), null);
  assert.equal(upload.pollTimeout(0), 250);
  upload.handleRead(second.id, values(second), 100);
  assert.ok(upload.pollRead(101));
});

test("what the depot holds of a failed file's neighbours stands, and they are not given up with it", () => {
  const upload = new Upload({ hashing: true, channels: 1 });
  for (const entry of [0, 1, 2]) upload.append(entry, entry * 10, 10);
  upload.seal();
  upload.handleFailed(0);
  const block = oneOf(upload, 0);
  send(upload, block, 0);
  assert.deepEqual(upload.handleConflict(block.id, 0), []);
  assert.ok(upload.delivered);
  assert.deepEqual([upload.doneOf(1), upload.doneOf(2)], [10, 10]);
});

test("files of a block that the depot holds with other content are given up where none of them had failed", () => {
  const upload = new Upload({ hashing: true, channels: 1 });
  for (const entry of [0, 1]) upload.append(entry, entry * 10, 10);
  upload.seal();
  const block = oneOf(upload, 0);
  send(upload, block, 0);
  assert.deepEqual(upload.handleConflict(block.id, 0), [0, 1]);
});

test("what a restarted depot lost is sent again", () => {
  const upload = oneFile(3, { hashing: false, channels: 1 });
  for (let now = 0; !upload.delivered; now++) {
    const chunk = oneOf(upload, now);
    upload.handleReceived(chunk.id, values(chunk), now, 0);
  }
  const missing: BlockRun[] = [[1, 1]];
  assert.ok(upload.handleMissing(missing));
  assert.equal(upload.delivered, false);
  assert.deepEqual(oneOf(upload, 9).run, [1, 1]);
});

test("chunks grow on a fast path, as far as memory is for them, and shrink on one that cuts them off", () => {
  const fast = oneFile(4000, { hashing: false, channels: 1 });
  const sizes: number[] = [];
  for (let now = 0; now < 8000; now += 1000) {
    const chunk = oneOf(fast, now);
    sizes.push(chunk.bytes / MiB);
    fast.handleReceived(chunk.id, values(chunk), now + 100, 0);
  }
  assert.deepEqual(sizes.slice(0, 4), [8, 16, 32, 32]);
  const chunk = oneOf(fast, 9000);
  fast.handleLost(chunk.id, 9000, 0, true);
  assert.equal(oneOf(fast, 20_000).bytes, 16 * MiB);
});

test("a silent request is noticed", () => {
  const upload = oneFile(4, { hashing: false, channels: 1 });
  const chunk = oneOf(upload, 0);
  assert.deepEqual([upload.pollStalled(91_000), upload.slowRead(30_000), upload.slowRead(91_000)], [[], null, 0], "a slow file is no lost network");
  send(upload, chunk, 0);
  upload.handleProgress(chunk.id, 1000, 30_000);
  assert.deepEqual([upload.isSilent(15_000), upload.isSilent(40_000), upload.isSilent(46_000)], [false, false, true]);
  assert.deepEqual(upload.pollStalled(80_000), []);
  assert.deepEqual(upload.pollStalled(91_000), [chunk.id]);
});

test("speed is of this session, not of what was durable before", () => {
  const upload = oneFile(100, { hashing: false, channels: 1 });
  upload.handleDurable([[0, 50]]);
  upload.progress(0);
  const chunk = oneOf(upload, 0);
  upload.handleProgress(chunk.id, 2 * MiB, 1000);
  const progress = upload.progress(1000);
  assert.equal(progress.done, 50 * BLOCK_SIZE);
  assert.equal(progress.bytesPerSecond, 2 * MiB);
  assert.equal(progress.secondsLeft, 99);
});

test("no time is said to be left for answers to what is all under way", () => {
  const upload = oneFile(1, { hashing: false, channels: 1 });
  upload.progress(0);
  const chunk = oneOf(upload, 0);
  upload.handleProgress(chunk.id, chunk.bytes, 1000);
  const { done, inFlight, secondsLeft } = upload.progress(1000);
  assert.deepEqual([done, inFlight, secondsLeft], [0, BLOCK_SIZE, null]);
});
