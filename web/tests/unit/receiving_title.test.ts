import assert from "node:assert/strict";
import { test } from "node:test";
import { DepotError } from "../../src/api/error";
import { hindered } from "../../src/views/hindered";
import { receivingTitle } from "../../src/views/receiving_title";

test("the title says why nothing comes, and else how much is here", () => {
  const receiving = { phase: "receiving", hindrance: null, files: 0, failures: 0 } as const;
  assert.equal(receivingTitle(receiving, 42), "42 %");
  assert.equal(receivingTitle({ ...receiving, hindrance: "network" }, 42), "Connection lost");
  assert.equal(receivingTitle({ ...receiving, hindrance: "busy" }, 42), "Trying again");
  assert.equal(receivingTitle({ ...receiving, phase: "asking" }, 42), "Waiting for an answer");
  assert.equal(receivingTitle({ ...receiving, phase: "stopped", hindrance: "network" }, 42), "Stopped");
});

test("the title does not call received what was not saved", () => {
  const done = { phase: "done", hindrance: null, files: 3, failures: 0 } as const;
  assert.equal(receivingTitle(done, 100), "Received");
  assert.equal(receivingTitle({ ...done, failures: 1 }, 42), "Partly received");
  assert.equal(receivingTitle({ ...done, files: 0, failures: 1 }, 0), "Not received");
});

test("only what the depot itself answers is said to be its answer", () => {
  assert.equal(hindered(null), "Connection lost. Trying again…");
  assert.equal(hindered(DepotError.network()), "Connection lost. Trying again…");
  assert.equal(hindered(new DepotError("busy", "It is busy.", 503, true)), "The depot answers: It is busy. Trying again…");
  assert.equal(hindered(new DepotError("short_answer", "The answer was cut short.", 206, true)), "The answer was cut short. Trying again…");
  for (const error of [DepotError.unreadable(200), DepotError.fromAnswer(502, "")]) assert.ok(!hindered(error).startsWith("The depot answers"));
});
