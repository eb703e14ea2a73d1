import assert from "node:assert/strict";
import { test } from "node:test";
import type { Entry } from "../../src/api/types";
import { chosenFile } from "../../src/send/chosen";
import { looksSame, prospectOf } from "../../src/send/prospect";

function entry(at: number, path: string, state: Entry["state"], mtime = 0): Entry {
  return { entry: at, path, kind: "file", size: 1, mtime, mtime_nanos: 0, mode: 0o644, address: null, state };
}

const chosen = (...paths: string[]) => paths.map((path) => chosenFile(path, new File(["x"], path, { lastModified: 0 })));

function agreed(before: Entry[], now: Entry[], files: ReturnType<typeof chosen>): boolean {
  return looksSame(prospectOf(before, files), prospectOf(now, files));
}

test("what another device has sent of the chosen files is not asked about again", () => {
  const before = [entry(0, "run/a", "pending")];
  assert.equal(agreed(before, [entry(0, "run/a", "complete")], chosen("run/a", "run/b")), true);
  assert.equal(agreed(before, [entry(0, "run/a", "pending"), entry(1, "run/b", "pending")], chosen("run/a", "run/b")), true);
});

test("what would be dropped, left out or sent elsewhere is asked about again where it is not what was shown", () => {
  const two = [entry(0, "run/a", "pending"), entry(1, "run/b", "pending")];
  const arrived = [two[0]!, entry(1, "run/b", "complete")];
  assert.equal(agreed(two, arrived, chosen("run/a")), false, "one that was not chosen has arrived");
  assert.equal(agreed(arrived, [...arrived, entry(2, "run/c", "pending")], chosen("run/a")), false, "one that was not chosen has come to it");
  assert.equal(agreed(two, [two[0]!, entry(1, "run/b", "failed"), entry(2, "run/b", "pending", 7)], chosen("run/a", "run/b")), false, "another content");
  assert.equal(agreed(arrived, [two[0]!, entry(1, "run/b", "failed")], chosen("run/a", "b")), false, "one has another's place");
  assert.equal(agreed([], [entry(0, "run/a", "pending")], chosen("other")), false, "the transfer turns out to be another");
});
