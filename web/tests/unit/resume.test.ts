import assert from "node:assert/strict";
import { test } from "node:test";
import { type Identity, type ManifestEntry, isLost, match } from "../../src/engine/resume";

function file(path: string, size: number, mtime: number, nanos = 0): Identity {
  return { path, kind: "file", size, mtime, mtime_nanos: nanos };
}

function known(entry: number, identity: Identity, state: ManifestEntry["state"] = "pending"): ManifestEntry {
  return { ...identity, entry, state };
}

function superseded(entry: number, identity: Identity): ManifestEntry {
  return { ...known(entry, identity, "failed"), superseded: true };
}

test("only unchanged files keep their place", () => {
  const manifest = [
    known(0, file("same", 5, 1)), known(1, file("grown", 5, 1)), known(2, file("touched", 5, 1)), known(3, file("gone", 5, 1)),
  ];
  const chosen = [file("same", 5, 1), file("grown", 6, 1), file("touched", 5, 2), file("new", 5, 1)];
  const matched = match(manifest, chosen);
  assert.deepEqual(matched.known.map(({ entry }) => entry), [0]);
  assert.deepEqual(matched.changed.map(({ entry }) => entry), [1, 2]);
  assert.deepEqual(matched.added.map(({ path }) => path), ["grown", "touched", "new"]);
  assert.deepEqual(matched.missing.map(({ path }) => path), ["gone"]);
});

test("a file sent by the command line, whose time is finer than a browser sees, is the same", () => {
  const { known: same } = match([known(0, file("a", 5, 1, 123_456_789))], [file("a", 5, 1, 123_000_000)]);
  assert.equal(same.length, 1);
});

test("what is complete need not be chosen again", () => {
  const { missing } = match([known(0, file("done", 5, 1), "complete"), known(1, file("not", 5, 1))], []);
  assert.deepEqual(missing.map(({ path }) => path), ["not"]);
});

test("a failed entry is as good as none, and a later one of the same path counts", () => {
  const manifest = [known(0, file("a", 5, 1), "failed"), known(1, file("b", 5, 1), "failed"), known(2, file("b", 6, 2))];
  const matched = match(manifest, [file("a", 5, 1), file("b", 6, 2)]);
  assert.deepEqual(matched.added.map(({ path }) => path), ["a"]);
  assert.deepEqual(matched.known.map(({ entry }) => entry), [2]);
});

test("folders have no time worth comparing, but a file in a folder's place is a change", () => {
  const folder = (path: string, mtime: number): Identity => ({ path, kind: "directory", size: 0, mtime, mtime_nanos: 0 });
  const matched = match([known(0, folder("a", 1)), known(1, folder("b", 1))], [folder("a", 9), file("b", 0, 9)]);
  assert.equal(matched.known.length, 1);
  assert.equal(matched.changed.length, 1);
});

test("what failed is replaced where another entry stands for it, and else is not", () => {
  const manifest = [
    known(0, file("a", 5, 1), "failed"), superseded(1, file("b", 5, 1)), known(2, file("b", 6, 2)), known(3, file("c", 5, 1)),
    superseded(4, file("d", 5, 1)), known(5, file("d", 5, 1), "failed"), known(6, file("e", 5, 1), "failed"),
  ];
  const matched = match(manifest, [file("a", 5, 1), file("b", 6, 2), file("c", 7, 2)]);
  assert.deepEqual([...matched.replaced].sort(), [0, 1, 3, 4]);
  assert.deepEqual(manifest.filter(isLost).map(({ entry }) => entry), [0, 5, 6]);
});
