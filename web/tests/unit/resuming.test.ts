import assert from "node:assert/strict";
import { test } from "node:test";
import type { Transfer } from "../../src/api/types";
import { resumingOf, resumingWith } from "../../src/send/resuming";
import { Selection } from "../../src/send/selection";

const transfer = { id: "t" } as Transfer;

test("a folder that is still being read is chosen already for the transfer that is gone on with", () => {
  const before = resumingOf("t", null, null);
  const selection = new Selection();
  assert.equal(resumingWith(transfer, selection, before).selection, before.selection);
  selection.setReading(0);
  assert.equal(resumingWith(transfer, selection, before).selection, selection);
  selection.add({ entries: [{ path: "a", kind: "file", size: 1, mtime: 0, mtime_nanos: 0, file: new File(["a"], "a") }], unsendable: [] });
  selection.setReading(null);
  assert.equal(resumingWith(transfer, selection, before).selection, selection);
});
