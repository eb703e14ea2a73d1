import assert from "node:assert/strict";
import { test } from "node:test";
import type { Transfer } from "../../src/api/types";
import { unfinishedOf } from "../../src/send/unfinished";

const DAY = 86_400;
const NOW = 100 * DAY;

function transfer(id: string, daysAgo: number, state: Transfer["state"] = "open", bytes = 10): Transfer {
  const rest = { name: id, expires: null, completed: null, entries: 1, files: 1, failed: 0, durable_bytes: 0, sealed: true };
  return { id, state, bytes, created: NOW - daysAgo * DAY, ...rest };
}

test("the latest transfer that was begun and not finished is offered, unless that is long ago", () => {
  const found = (...transfers: Transfer[]) => unfinishedOf(transfers, NOW)?.id ?? null;
  assert.equal(found(transfer("older", 2), transfer("latest", 1), transfer("oldest", 3)), "latest");
  assert.equal(found(transfer("complete", 1, "complete"), transfer("partial", 1, "partial"), transfer("open", 6)), "open");
  const others = { ...transfer("another's", 1), yours: false };
  assert.equal(found(others), null);
  assert.equal(found(others, { ...transfer("own", 2), yours: true }), "own");
  assert.equal(found(transfer("forgotten", 8), transfer("without files", 1, "open", 0)), null);
});
