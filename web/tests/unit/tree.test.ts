import assert from "node:assert/strict";
import { test } from "node:test";
import { Tree } from "../../src/engine/tree";

function tree(...paths: [path: string, size: number][]): Tree {
  const made = new Tree();
  paths.forEach(([path, size], at) => made.add(path, "file", size, at));
  return made;
}

const shown = (made: Tree) => made.rows.map(({ path }) => path);

test("folders come first, names in the order that people expect", () => {
  assert.deepEqual(shown(tree(["b 10", 1], ["b 9", 1], ["z/x", 1], ["a", 1])), ["z", "a", "b 9", "b 10"]);
});

test("a folder shows the sum of what is below it and unfolds", () => {
  const made = tree(["a/b/one", 5], ["a/two", 7], ["three", 1]);
  const [a] = made.rows;
  assert.deepEqual([a!.size, a!.files, made.size, made.files], [12, 2, 13, 3]);
  made.setOpen(a!, true);
  assert.deepEqual(shown(made), ["a", "a/b", "a/two", "three"]);
});

test("an entry of the same path takes the earlier one's place", () => {
  const made = tree(["a/one", 5], ["a/one", 8]);
  assert.deepEqual([made.files, made.size, made.rows[0]!.children[0]!.entry], [1, 8, 1]);
});

test("a tree that grows page by page is sorted once, however often it is looked at", (t) => {
  let comparisons = 0;
  const compare = Object.getOwnPropertyDescriptor(Intl.Collator.prototype, "compare")!;
  const counting = function (this: Intl.Collator) {
    const plain = compare.get!.call(this) as (a: string, b: string) => number;
    return (a: string, b: string) => (comparisons++, plain(a, b));
  };
  Object.defineProperty(Intl.Collator.prototype, "compare", { ...compare, get: counting });
  t.after(() => Object.defineProperty(Intl.Collator.prototype, "compare", compare));
  const made = new Tree();
  made.growing = true;
  const total = 8192;
  for (let at = 0; at < total; at++) {
    made.add(`file ${(at * 4099) % total}`, "file", 1, at);
    if (at % 128 === 127) assert.equal(made.rows.length, at + 1);
  }
  made.growing = false;
  assert.deepEqual(shown(made).slice(0, 3), ["file 0", "file 1", "file 2"]);
  assert.ok(comparisons > 0 && comparisons < total * Math.log2(total) * 1.5, `${comparisons} comparisons`);
});

test("a folder declared after its files is the same folder", () => {
  const made = tree(["a/one", 5]);
  made.add("a", "directory", 0, 1);
  assert.deepEqual([made.rows.length, made.rows[0]!.entry, made.rows[0]!.files], [1, 1, 1]);
});

test("what is not there after all goes, with folders that were only part of its path, and the rest stays as it was", () => {
  const made = tree(["a/b/one", 5], ["a/two", 7]);
  made.add("c", "directory", 0, 2);
  made.add("c/three", "file", 1, 3);
  const [a] = made.rows;
  made.setOpen(a!, true);
  made.remove("a/b/one", 0);
  made.remove("c/three", 3);
  // A later entry stands for the second, and there never was a last.
  made.remove("a/two", 0);
  made.remove("a/none", 9);
  assert.deepEqual(shown(made), ["a", "a/two", "c"]);
  assert.deepEqual([made.rows[0], a!.size, a!.files, made.size, made.files], [a, 7, 1, 7, 1]);
  made.add("a/b/one", "file", 2, 4);
  assert.deepEqual(shown(made), ["a", "a/b", "a/two", "c"]);
});

test("a folder in the place of a file has the size of what is in it", () => {
  const made = tree(["a", 1000]);
  made.add("a", "directory", 0, 1);
  made.add("a/one", "file", 5, 2);
  assert.deepEqual([made.rows[0]!.size, made.size, made.files], [5, 5, 1]);
});

test("what failed and came again in vain goes, although the earlier one stands for it", () => {
  const made = tree(["a", 5]);
  made.remove("a", 3);
  assert.deepEqual([shown(made), made.files, made.size], [[], 0, 0]);
});
