import assert from "node:assert/strict";
import { test } from "node:test";
import type { Transfer } from "../../src/api/types";
import { resumingOf } from "../../src/send/resuming";
import { resumeHash, viewOf } from "../../src/views/address";

test("each view has its address, and any other is that for sending", () => {
  assert.deepEqual(viewOf("#/transfers"), { name: "transfers" });
  assert.deepEqual(viewOf(resumeHash("y6xpwgwtp3ad-5a")), { name: "resume", transfer: "y6xpwgwtp3ad-5a" });
  for (const hash of ["", "#/send", "#/resume/", "#/resume/../session", "#/resume/a?b"]) assert.deepEqual(viewOf(hash), { name: "send" }, hash);
});

test("what was chosen for a transfer stays until another is gone on with", () => {
  const first = resumingOf("a", null, null);
  const again = resumingOf("a", { id: "a" } as Transfer, first);
  assert.equal(again.selection, first.selection);
  assert.equal(again.transfer?.id, "a");
  assert.equal(resumingOf("a", null, again), again);
  assert.notEqual(resumingOf("b", null, again).selection, first.selection);
});
