import assert from "node:assert/strict";
import { test } from "node:test";
import { DepotError } from "../../src/api/error";
import { backoff } from "../../src/engine/backoff";
import { batches } from "../../src/engine/batches";
import { ChannelCount, MAX, connectionsEach } from "../../src/engine/channel_count";
import { ChunkSize } from "../../src/engine/chunk_size";
import { Speedometer } from "../../src/engine/speedometer";
import { uploadOptions } from "../../src/send/options";
import { bytes, duration, percent, until } from "../../src/ui/format";

/** Where the law settles on a path whose rate is a function of the number of requests. */
function settle(path: (count: number) => number): number {
  const law = new ChannelCount();
  const seen: number[] = [];
  let target = law.target(0);
  for (let now = 2000; now <= 120_000; now += 2000) {
    law.handleBytes(path(target) * 2000);
    target = law.target(now);
    seen.push(target);
  }
  return seen.sort((a, b) => a - b)[seen.length / 2]!;
}

test("more requests are kept only while they help, and never more than a browser opens", () => {
  assert.equal(settle((count) => count * 1000), 6);
  assert.equal(settle(() => 5000), 3);
  assert.equal(settle((count) => Math.min(count, 4) * 1000), 4);
});

test("a long path begins with all that a browser opens, and its requests outlast their round trip", () => {
  const near = new ChannelCount();
  near.handleRoundTrip(2);
  const far = new ChannelCount();
  far.handleRoundTrip(100);
  assert.deepEqual([near.target(0), far.target(0)], [3, 6]);
  for (const [rate, mebibytes, why] of [
    [1, 4, "three seconds at least"],
    [4, 8, "two blocks, though that is two seconds"],
    [20, 12, "six round trips"],
    [400, 32, "and no more than memory is for"],
  ] as const) {
    const size = new ChunkSize();
    size.handleRoundTrip(100);
    assert.equal(size.bytes, 8 << 20);
    for (let times = 0; times < 9; times++) size.handleDelivered(size.bytes, size.bytes / (rate * 1000));
    assert.equal(size.bytes, mebibytes << 20, why);
  }
});

test("where requests take long one connection is left for calls, until they are short again, and on the longest paths not so soon", () => {
  const law = new ChannelCount();
  law.handleRoundTrip(100);
  const after = (...took: number[]) => (took.forEach((milliseconds) => law.handleTook(milliseconds)), law.target(0));
  assert.deepEqual([after(2900), after(3100), after(2000), after(1400)], [6, 5, 5, 6]);
  law.handleTaking(3100);
  assert.equal(law.target(0), 5, "one that is not over yet");
  law.handleRoundTrip(300);
  assert.deepEqual([after(100), after(5900), after(6100)], [6, 6, 5]);
  const fixed = new ChannelCount(6);
  fixed.handleTook(10_000);
  assert.equal(fixed.target(0), 6);
});

test("tabs that are busy at once leave one connection for calls together, and each keeps one at least", () => {
  assert.deepEqual([0, 1, 2, 3, 5, 9].map(connectionsEach), [5, 5, 2, 1, 1, 1]);
  const law = new ChannelCount();
  law.handleRoundTrip(100);
  law.handleTabs(2);
  assert.equal(law.target(0), 6, "short requests let calls through");
  law.handleTook(3100);
  assert.equal(law.target(0), 2);
  law.handleTabs(1);
  assert.equal(law.target(0), 5, "the other tab has ended");
});

test("a tab beside others does not take all connections again as a request of its few is faster than one of many, but as the line is", () => {
  for (const tabs of [2, 3]) {
    const law = new ChannelCount();
    law.handleRoundTrip(100);
    law.handleTabs(tabs);
    /** How many there are, request after request, where one of six takes so long. */
    const counts = (ofSix: number) => Array.from({ length: 20 }, () => (law.handleTook((ofSix * law.target(0)) / MAX), law.target(0)));
    assert.deepEqual(new Set(counts(3400)), new Set([connectionsEach(tabs)]));
    assert.deepEqual(new Set(counts(1700)), new Set([MAX]));
  }
});

test("a tab beside others whose requests the path's length limits gets all connections back, after ever more requests", () => {
  const law = new ChannelCount();
  law.handleRoundTrip(200);
  law.handleTabs(2);
  for (const patience of [64, 128]) {
    law.handleTook(4100);
    const counts = Array.from({ length: patience }, () => (law.handleTook(1200), law.target(0)));
    assert.deepEqual(counts, [...Array<number>(patience - 1).fill(2), MAX]);
  }
});

test("a size that was asked for stays, to the last request", () => {
  const { chunk, channels } = uploadOptions("?chunk=16&channels=2");
  assert.deepEqual([chunk, channels], [16 << 20, 2]);
  const size = new ChunkSize(chunk);
  size.handleRoundTrip(100);
  for (let times = 0; times < 9; times++) size.handleDelivered(size.bytes, 1);
  size.handleLost();
  assert.deepEqual([size.bytes, size.next(1, 6)], [16 << 20, 16 << 20]);
  assert.equal(new ChunkSize(10 << 20).bytes, 12 << 20, "in whole blocks");
  for (const search of ["", "?chunk=1", "?chunk=129", "?chunk=x", "?channels=0"]) {
    assert.deepEqual(uploadOptions(search), { hashing: true, comparing: true, channels: undefined, chunk: undefined });
  }
});

test("delays double up to half a minute", () => {
  assert.deepEqual([1, 2, 3, 4].map((failures) => backoff(failures, 1)), [250, 500, 1000, 2000]);
  assert.deepEqual([backoff(20, 1), backoff(1, 0)], [30_000, 125]);
});

test("speed is that of the last seconds", () => {
  const meter = new Speedometer();
  assert.equal(meter.rate, null);
  for (let second = 0; second <= 60; second++) meter.handleTotal(second * 1000, second <= 50 ? 0 : (second - 50) * 1e6);
  assert.equal(meter.rate, 1e6);
  assert.equal(meter.secondsFor(3e6), 3);
});

test("speed after a night's sleep is not that of the night", () => {
  const meter = new Speedometer();
  for (let second = 0; second <= 10; second++) meter.handleTotal(second * 1000, second * 1e6);
  const woken = 8 * 3_600_000;
  meter.handleTotal(woken, 10e6);
  meter.handleTotal(woken + 1000, 11e6);
  assert.equal(meter.rate, 1e6);
});

test("a manifest is cut by number and by length of paths", () => {
  const entries = Array.from({ length: 12_001 }, (_, at) => ({ path: `f${at}` }));
  assert.deepEqual(batches(entries).map(({ length }) => length), [100, 400, 1600, 5000, 4901]);
  const long = Array.from({ length: 1000 }, () => ({ path: "ß".repeat(4000) }));
  for (const batch of batches(long)) assert.ok(new TextEncoder().encode(JSON.stringify(batch)).length < 4_000_000);
  assert.equal(batches(long).flat().length, 1000);
});

test("answers that are not the depot's own still say something", () => {
  const own = DepotError.fromAnswer(413, '{"error":{"code":"quota_exceeded","message":"Full.","retry":false}}');
  assert.deepEqual([own.code, own.message, own.retry], ["quota_exceeded", "Full.", false]);
  const proxy = DepotError.fromAnswer(502, "<html>Bad Gateway</html>");
  assert.deepEqual([proxy.code, proxy.retry], ["http_502", true]);
});

test("what a depot says stands alone as a sentence, as what the page says itself does", () => {
  const said = (message: string) => DepotError.fromAnswer(409, JSON.stringify({ error: { code: "c", message, retry: false } })).message;
  assert.equal(said("the session has ended: sign in again"), "The session has ended: sign in again.");
  assert.equal(said("9.00 MB more would pass the quota"), "9.00 MB more would pass the quota.");
  assert.equal(said("Sign in first."), "Sign in first.");
});

test("figures read as people write them", () => {
  assert.deepEqual([0, 999, 1000, 4_294_967_296, 999_999].map(bytes), ["0 B", "999 B", "1.00 kB", "4.29 GB", "1.00 MB"]);
  assert.deepEqual([0.2, 59, 200, 3500, 7500, 200_000].map(duration), ["1 s", "59 s", "3 min 20 s", "58 min", "2 h 5 min", "2 days"]);
  assert.deepEqual([percent(0, 0), percent(999_999, 1_000_000), percent(5, 5)], [100, 99, 100]);
  assert.deepEqual([until(100, 200), until(90_000, 0), until(7200, 0)], ["expired", "expires in 1 day", "expires in 2 hours"]);
});
