import assert from "node:assert/strict";
import { test } from "node:test";
import { type Identity, type ManifestEntry, atLostPaths, isForeign, isLost, isWhole, match } from "../../src/engine/resume";

function file(path: string, size: number, mtime: number, nanos = 0): Identity {
  return { path, kind: "file", size, mtime, mtime_nanos: nanos };
}

function folder(path: string, mtime = 1): Identity {
  return { path, kind: "directory", size: 0, mtime, mtime_nanos: 0 };
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

test("a file is the same in a browser that tells whole seconds only, whoever began with it", () => {
  const isKnown = (began: number, now: number, second = 1) => match([known(0, file("a", 5, 1, began))], [file("a", 5, second, now)]).known.length === 1;
  assert.equal(isKnown(123_000_000, 0), true);
  assert.equal(isKnown(0, 123_000_000), true);
  assert.equal(isKnown(123_456_789, 0), true);
  assert.equal(isKnown(0, 0, 2), false);
  assert.equal(isKnown(123_000_000, 0, 2), false);
  assert.equal(isKnown(123_000_000, 124_000_000), false);
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
  const matched = match([known(0, folder("a", 1)), known(1, folder("b", 1))], [folder("a", 9), file("b", 0, 9)]);
  assert.equal(matched.known.length, 1);
  assert.equal(matched.changed.length, 1);
});

test("what was in a folder that is a file now has no place any more, though it is complete", () => {
  const manifest = [
    known(0, folder("a"), "complete"), known(1, file("a/b/c", 5, 1), "complete"), known(2, file("a/d", 5, 1)), known(3, file("a!", 5, 1), "complete"),
    known(4, file("aa/b", 5, 1)), known(5, file("a/e", 5, 1), "failed"),
  ];
  const matched = match(manifest, [file("a", 5, 1)]);
  assert.deepEqual(matched.changed.map(({ entry }) => entry), [0]);
  assert.deepEqual(matched.displaced.map(({ entry }) => entry), [1, 2]);
  assert.deepEqual(matched.missing.map(({ entry }) => entry), [4]);
  assert.deepEqual(match(manifest, [folder("a")]).displaced, []);
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

test("files none of which is part of the transfer are another's, though it lacks nothing but what failed", () => {
  const isOther = (manifest: ManifestEntry[], ...chosen: Identity[]) => isForeign(manifest, match(manifest, chosen));
  const partial = [known(0, folder("run"), "complete"), known(1, file("run/a", 5, 1), "complete"), known(2, file("run/b", 5, 1), "failed")];
  assert.equal(isOther(partial, file("b", 5, 1)), true);
  assert.equal(isOther(partial, folder("run"), file("run/c", 5, 1)), true, "a folder of the same name");
  assert.equal(isOther(partial, file("run/a", 5, 1)), false);
  assert.equal(isOther(partial, file("run/a", 6, 2)), false, "it changed");
  assert.equal(isOther(partial, file("run/b", 7, 3)), false, "it failed");
  assert.equal(isOther([known(0, file("run/a", 5, 1), "complete")], file("a", 5, 1)), true, "all is there");
  assert.equal(isOther([known(0, folder("run"), "complete")], file("run/a", 5, 1)), false, "no file of it is known yet");
});

test("a file that is chosen without its folder is the one that was lost, if only one has its name", () => {
  const manifest = [
    known(0, file("run/a", 5, 1), "failed"), known(1, file("run/b", 5, 1), "failed"), known(2, file("old/b", 5, 1), "failed"),
    known(3, file("run/c", 5, 1), "failed"), known(4, file("c", 5, 1), "complete"), superseded(5, file("run/d", 5, 1)),
    known(6, file("run/e", 5, 1), "failed"),
  ];
  const paths = (...chosen: Identity[]) => atLostPaths(manifest, chosen).map(({ path }) => path);
  assert.deepEqual(paths(file("a", 9, 2)), ["run/a"]);
  assert.deepEqual(paths(file("b", 5, 1)), ["b"], "two have its name");
  assert.deepEqual(paths(file("c", 5, 1)), ["c"], "it is part of the transfer as it is");
  assert.deepEqual(paths(file("d", 5, 1)), ["d"], "another stands for it");
  assert.deepEqual(paths(file("e", 5, 1), folder("run"), file("run/e", 5, 1)), ["e", "run", "run/e"], "it is chosen itself");
  assert.deepEqual(paths(folder("a"), file("data/a", 5, 1)), ["a", "data/a"]);
});

test("an open transfer lacks nothing once its manifest is told to the end and nothing is pending", () => {
  const [done, lost] = [known(0, file("a", 5, 1), "complete"), known(1, file("b", 5, 1), "failed")];
  assert.equal(isWhole([done, lost], { state: "open", sealed: true }), true);
  assert.equal(isWhole([done, lost], { state: "open", sealed: false }), false);
  assert.equal(isWhole([done, lost], { state: "partial", sealed: true }), false);
  assert.equal(isWhole([done, known(1, file("b", 5, 1))], { state: "open", sealed: true }), false);
  assert.equal(isWhole([], { state: "open", sealed: true }), false);
});
