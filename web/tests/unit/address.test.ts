import assert from "node:assert/strict";
import { test } from "node:test";
import type { Transfer } from "../../src/api/types";
import { resumingOf } from "../../src/send/resuming";
import { linkOf, resumeHash, viewOf } from "../../src/views/address";

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

test("a link works whose # a mail program has encoded, and the secret goes out of the path", () => {
  const link = { id: "y6xp-5a", secret: "thl_a-B_9" };
  const clean = "/t/y6xp-5a#thl_a-B_9";
  assert.deepEqual(linkOf("/t/y6xp-5a", "#thl_a-B_9"), { ...link, clean: null });
  assert.deepEqual(linkOf("/t/y6xp-5a/", "#thl_a-B_9&fp=ab"), { ...link, clean: null });
  assert.deepEqual(linkOf("/t/y6xp-5a%23thl_a-B_9", ""), { ...link, clean });
  assert.deepEqual(linkOf("/t/y6xp-5a%23thl_a-B_9&fp=ab/", ""), { ...link, clean: `${clean}&fp=ab` });
  assert.deepEqual(linkOf("/t/y6xp-5a%23thl_a-B_9%26fp%3Dab", "#more"), { ...link, clean: `${clean}&fp=ab` });
  assert.deepEqual(linkOf("/t/y6xp-5a%23", ""), { id: "y6xp-5a", secret: null, clean: "/t/y6xp-5a" });
  assert.deepEqual(linkOf("/t/y6xp-5a", ""), { id: "y6xp-5a", secret: null, clean: null });
  assert.deepEqual(linkOf("/t/y6xp-5a%20", "#thl_a"), { id: "y6xp-5a%20", secret: "thl_a", clean: null });
  for (const path of ["/", "/t/", "/t/a/b"]) assert.equal(linkOf(path, "#thl_a"), null, path);
});
