import assert from "node:assert/strict";
import { test } from "node:test";
import type { FailureCause } from "../../src/api/types";
import { Patience } from "../../src/send/patience";

const failures = (cause: FailureCause, ...entries: number[]) => entries.map((entry) => ({ entry, cause, detail: "" }));
const MINUTE = 60_000;

test("a device that is away for less than a minute costs nothing", () => {
  const patience = new Patience();
  for (const now of [0, 1000, 59_000]) assert.deepEqual(patience.handleFailures(failures("vanished", 1, 2), false, now), []);
  assert.equal(patience.waitingFor, 1);
  patience.handleRead([1, 2]);
  assert.equal(patience.waitingFor, null);
  assert.deepEqual(patience.handleFailures(failures("vanished", 1), false, MINUTE + 1), [], "it is away anew");
});

test("a device that stays away is waited for once, and not for each of its files", () => {
  const patience = new Patience();
  patience.handleFailures(failures("unreadable", 1), false, 0);
  for (let now = 0; now <= MINUTE; now += 1000) patience.handleAwake(now);
  assert.equal(patience.handleFailures(failures("unreadable", 1), false, MINUTE).length, 1);
  assert.equal(patience.handleFailures(failures("vanished", 2, 3), false, MINUTE + 1).length, 2);
  for (const entry of [1, 2, 3]) patience.forget(entry);
  assert.equal(patience.waitingFor, null);
});

test("a file that is gone alone is given up at once, and one that another program has after some seconds", () => {
  const patience = new Patience();
  assert.equal(patience.handleFailures(failures("vanished", 1), true, 0).length, 1);
  assert.deepEqual(patience.handleFailures(failures("unreadable", 2), true, 0), []);
  assert.equal(patience.handleFailures(failures("unreadable", 2), true, 5000).length, 1);
});

test("what is gone with all that is next to it is given up although other things are read meanwhile", () => {
  const patience = new Patience();
  for (let now = 0; now < MINUTE; now += 1000) {
    assert.deepEqual(patience.handleFailures(failures("vanished", 5), false, now), []);
    patience.handleRead([99]);
  }
  assert.equal(patience.handleFailures(failures("vanished", 5), false, MINUTE).length, 1);
});
