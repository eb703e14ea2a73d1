import assert from "node:assert/strict";
import { test } from "node:test";
import type { Transfer } from "../../src/api/types";
import type { Choice } from "../../src/send/chosen";
import { resumingOf, resumingWith } from "../../src/send/resuming";
import { Selection } from "../../src/send/selection";

const transfer = { id: "t" } as Transfer;

test("a folder that is still being read is chosen already for the transfer that is gone on with", async () => {
  const before = resumingOf("t", null, null);
  const selection = new Selection();
  assert.equal(resumingWith(transfer, selection, before).selection, before.selection);
  let end: (choice: Choice) => void = () => {};
  const reading = selection.addFrom(() => new Promise((resolve) => (end = resolve)));
  assert.equal(resumingWith(transfer, selection, before).selection, selection);
  end({ entries: [{ path: "a", kind: "file", size: 1, mtime: 0, mtime_nanos: 0, file: new File(["a"], "a") }], unsendable: [] });
  await reading;
  assert.equal(resumingWith(transfer, selection, before).selection, selection);
});
