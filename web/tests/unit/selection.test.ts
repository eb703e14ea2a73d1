import assert from "node:assert/strict";
import { test } from "node:test";
import { type Choice, chosenFile, chosenFolder, fromFolderPicker } from "../../src/send/chosen";
import { dropped, walk } from "../../src/send/drop";
import { Selection } from "../../src/send/selection";

const then = new Date(0);

function file(path: string, content = "x", lastModified = 0) {
  return chosenFile(path, new File([content], path, { lastModified }));
}

function chosen(...entries: ReturnType<typeof file>[]): Selection {
  const selection = new Selection();
  selection.add({ entries, unsendable: [] });
  return selection;
}

const paths = (selection: Selection) => selection.entries.map(({ path }) => path);

test("a name that the depot cannot take is left out and named, and the others stay", () => {
  const long = "é".repeat(128);
  const deep = `${"d/".repeat(512)}x`;
  const wide = `${"n".repeat(255)}/`.repeat(16) + "x";
  const selection = chosen(file("é".repeat(127)), file(`in/${long}`), file(deep), file(wide), file("n".repeat(255)));
  assert.deepEqual(paths(selection), ["n".repeat(255), "é".repeat(127)]);
  assert.deepEqual(selection.unsendable.map(({ path }) => path), [`in/${long}`, deep, wide]);
  assert.match(selection.unsendable[0]!.reason, /255 bytes/);
  selection.dismissNotices();
  assert.deepEqual([selection.unsendable, paths(selection).length], [[], 2]);
});

test("a name with half of a character is left out and named, and the others stay", () => {
  const selection = chosen(file("in/a\ud800b"), file("\udc00"), file("in/😀"));
  assert.deepEqual(paths(selection), ["in/😀"]);
  assert.deepEqual(selection.unsendable.map(({ path }) => path), ["in/a\ud800b", "\udc00"]);
  assert.match(selection.unsendable[0]!.reason, /rename it/);
});

test("what could not be read the second time is not sent, and a folder is of which some could not", () => {
  const selection = chosen(chosenFolder("in", then), file("in/a"), file("in/b"));
  selection.add({ entries: [], unsendable: [{ path: "in", reason: "1 item in it" }, { path: "in/a", reason: "locked" }] });
  assert.deepEqual(paths(selection), ["in", "in/b"]);
  assert.deepEqual(selection.unsendable.map(({ path }) => path), ["in", "in/a"]);
});

test("what could be read the second time is not said to be unsendable", () => {
  const selection = new Selection();
  const unsendable = [{ path: "a", reason: "locked" }];
  selection.add({ entries: [], unsendable });
  selection.add({ entries: [], unsendable });
  assert.equal(selection.unsendable.length, 1);
  selection.add({ entries: [file("a")], unsendable: [] });
  assert.deepEqual([selection.unsendable, paths(selection)], [[], ["a"]]);
});

test("another file under the same path is said to take the earlier one's place", () => {
  const selection = chosen(file("a", "one"), file("b"));
  selection.add({ entries: [file("a", "two, longer"), file("b")], unsendable: [] });
  assert.deepEqual(selection.replaced, ["a"]);
  assert.equal(selection.entries[0]!.size, "two, longer".length);
  selection.add({ entries: [file("b", "x", 500)], unsendable: [] });
  assert.deepEqual(selection.replaced, ["a", "b"], "half a second later");
  selection.remove("b");
  selection.add({ entries: [file("b")], unsendable: [] });
  selection.remove("a");
  assert.deepEqual([paths(selection), selection.replaced], [["b"], []]);
});

test("a file that takes a folder's place takes the place of what it held", () => {
  const selection = chosen(chosenFolder("a", then), file("a/one"), file("ab"));
  selection.add({ entries: [file("a")], unsendable: [] });
  assert.deepEqual([paths(selection), selection.replaced], [["a", "ab"], ["a"]]);
});

test("folders are being read until the last of their walks has ended, in whichever view each began, and however", async () => {
  const selection = new Selection();
  const walks: { found: (files: number) => void; end: (choice: Choice) => void; fail: (error: Error) => void }[] = [];
  const begin = () => selection.addFrom((found) => new Promise((end, fail) => walks.push({ found, end, fail })));
  const [first, second] = [begin(), begin()];
  walks[0]!.found(3);
  walks[1]!.found(4);
  assert.equal(selection.reading, 7);
  walks[0]!.end({ entries: [file("a")], unsendable: [] });
  await first;
  assert.deepEqual([selection.reading, paths(selection)], [4, ["a"]]);
  walks[1]!.fail(new Error("no"));
  await assert.rejects(second);
  assert.equal(selection.reading, null);
});

test("what is met in folders is counted by files", async () => {
  const leaf = { isDirectory: false, fullPath: "/in/a", name: "a", file: (give: (file: File) => void) => give(new File([], "a")) };
  const batches = [[leaf], []];
  const folder = {
    isDirectory: true, fullPath: "/in", name: "in", createReader: () => ({ readEntries: (give: (all: unknown[]) => void) => give(batches.shift()!) }),
  };
  const met: number[] = [];
  await walk({ roots: [folder as unknown as FileSystemEntry], unsendable: [] }, then, (files) => met.push(files));
  assert.deepEqual(met, [1]);
});

test("a folder with more in it than a call has room for is read whole, where a browser gives all of it at once", async () => {
  const given = new File([], "a");
  const leaf = (at: number) => ({ isDirectory: false, fullPath: `/in/${at}`, name: `${at}`, file: (give: (file: File) => void) => give(given) });
  const batches = [Array.from({ length: 200_000 }, (_, at) => leaf(at)), []];
  const folder = {
    isDirectory: true, fullPath: "/in", name: "in", createReader: () => ({ readEntries: (give: (all: unknown[]) => void) => give(batches.shift()!) }),
  };
  const { entries, unsendable } = await walk({ roots: [folder as unknown as FileSystemEntry], unsendable: [] }, then, () => {});
  assert.deepEqual([entries.length, unsendable], [200_001, []]);
});

test("what the page itself fails to read is not put down to permissions", async () => {
  const file = () => {
    throw new RangeError("Maximum call stack size exceeded");
  };
  const root = { name: "a", fullPath: "/a", isDirectory: false, file } as unknown as FileSystemEntry;
  const { unsendable } = await walk({ roots: [root], unsendable: [] }, then, () => {});
  assert.match(unsendable[0]!.reason, /^The page could not read it \(Maximum call stack size exceeded\)/);
});

test("what a browser gives nothing of is named", async () => {
  const nothing = { kind: "file", webkitGetAsEntry: () => null };
  const items = [{ ...nothing, getAsFile: () => new File([], "mail.eml") }, { ...nothing, getAsFile: () => null }, { ...nothing, kind: "string" }];
  const choice = await walk(dropped({ items } as unknown as DataTransfer), then, () => {});
  assert.deepEqual(choice.unsendable.map(({ path }) => path), ["mail.eml", "What was dropped"]);
  assert.match(choice.unsendable[0]!.reason, /cannot read it/);
});

test("a file of the first second of 1970, which Chromium dates 1601, has its time, and all others have theirs", () => {
  const timeOf = (lastModified: number) => {
    const { mtime, mtime_nanos } = file("f", "x", lastModified);
    return [mtime, mtime_nanos];
  };
  assert.deepEqual([-11_644_473_600_000, -11_644_473_599_001].map(timeOf), [[0, 0], [0, 999_000_000]]);
  assert.deepEqual([-11_644_473_599_000, -1, 0, 1500].map(timeOf), [[-11_644_473_599, 0], [-1, 999_000_000], [0, 0], [1, 500_000_000]]);
  assert.deepEqual([-11_644_473_600_001, -13_000_000_000_000].map(timeOf), [[-11_644_473_601, 999_000_000], [-13_000_000_000, 0]]);
});

test("a folder that a browser gives as a file is named and not sent as one", () => {
  const within = (path: string) => Object.defineProperty(new File(["x"], "a"), "webkitRelativePath", { value: path });
  const outside = Object.defineProperty(new File([], "folder"), "webkitRelativePath", { value: "" });
  const choice = fromFolderPicker([outside, within("run/a")], then);
  assert.deepEqual(choice.entries.map(({ path }) => path), ["run", "run/a"]);
  assert.deepEqual(choice.unsendable.map(({ path }) => path), ["folder"]);
  assert.match(choice.unsendable[0]!.reason, /does not look into folders/);
});

test("a file of a picked folder keeps a backslash in its name, which Chromium writes as a slash in its path, and is where a drop has it", async () => {
  const within = (folder: string, name: string) =>
    Object.defineProperty(new File(["x"], name), "webkitRelativePath", { value: `${folder}/${name.replaceAll("\\", "/")}` });
  const picked = fromFolderPicker([within("bs", "a\\b.txt"), within("bs/a", "b.txt"), within("bs", "\\"), within("bs", "")], then);
  assert.deepEqual(picked.entries.map(({ path }) => path), ["bs", "bs/a\\b.txt", "bs/a", "bs/a/b.txt", "bs/\\", "bs/"]);
  const leaf = { isDirectory: false, fullPath: "/bs/a\\b.txt", name: "a\\b.txt", file: (give: (file: File) => void) => give(new File([], "a\\b.txt")) };
  const walked = await walk({ roots: [leaf as unknown as FileSystemEntry], unsendable: [] }, then, () => {});
  assert.deepEqual(walked.entries.map(({ path }) => path), ["bs/a\\b.txt"]);
});

test("what cannot be read while folders are walked is named with a reason in words for people", async () => {
  const failing = (name: string, error: string) => {
    const file = (_: unknown, reject: (cause: DOMException) => void) => reject(new DOMException("A reference to a file was acquired.", error));
    return { name, fullPath: `/${name}`, isDirectory: false, file } as unknown as FileSystemEntry;
  };
  const roots = [failing("gone", "NotFoundError"), failing("secret", "NotReadableError")];
  const { entries, unsendable } = await walk({ roots, unsendable: [] }, new Date(0), () => {});
  assert.deepEqual(entries, []);
  assert.deepEqual(unsendable, [
    { path: "gone", reason: "It is not there any more, or is a link that leads nowhere." },
    { path: "secret", reason: "The browser may not read it: see to its permissions, then choose it again." },
  ]);
});
