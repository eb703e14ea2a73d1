import assert from "node:assert/strict";
import { test } from "node:test";
import { Folder, NameRefused } from "../../src/receive/folder";

const error = (name: string) => new DOMException("It is not to be.", name);

/** A folder with a folder `kept` in it, and there a file; looking for what `hidden` names fails so, making it does not. */
function device(hidden: Record<string, DOMException> = {}) {
  const file = {
    kind: "file",
    getFile: async () => {
      if (hidden.content) throw hidden.content;
      return new File(["mine"], "file");
    },
  };
  const look = (name: string, there: Record<string, unknown>, create = false) => {
    if (hidden[name] && !create) throw hidden[name];
    if (!there[name]) throw error("NotFoundError");
    return there[name];
  };
  const kept = { getFileHandle: async (name: string, options?: { create?: boolean }) => look(name, { file }, options?.create) };
  const root = { getDirectoryHandle: async (name: string, options?: { create?: boolean }) => look(name, { kept }, options?.create) };
  return new Folder(root as unknown as FileSystemDirectoryHandle);
}

test("a file is there, or it is not", async () => {
  assert.equal(await (await device().existing("kept/file"))?.text(), "mine");
  assert.equal(await device().existing("kept/other"), null);
});

test("what cannot be looked at is not taken for what is not there, and so is never replaced unasked", async () => {
  await assert.rejects(device({ file: error("NotAllowedError") }).existing("kept/file"), { name: "NotAllowedError" });
  await assert.rejects(device({ content: error("NotReadableError") }).existing("kept/file"), { name: "NotReadableError" });
  await assert.rejects(device({ file: error("NotAllowedError") }).check("kept/file"), { name: "NotAllowedError" });
});

test("a folder that cannot be looked at is not taken for a new one, in which nothing needs a look", async () => {
  const folder = device({ kept: error("InvalidStateError") });
  await assert.rejects(folder.existing("kept/file"), { name: "InvalidStateError" });
});

test("a file that has gone meanwhile is not there", async () => {
  assert.equal(await device({ content: error("NotFoundError") }).existing("kept/file"), null);
});

/** A disk that finds a name by `found` of it and lists it as `kept` of it. As Chromium has it, a handle is the same entry as another if the same
 * name was asked for, whatever is there, and a file is empty until what was written to it is closed. `locks`: no more than one at a time writes
 * to a file, and nobody removes it then. */
function disk(found: (name: string) => string, kept = (name: string) => name, locks = false) {
  const texts: Record<string, string> = {};
  const times: Record<string, number> = {};
  const locked = new Set<string>();
  let now = 0;
  const put = (path: string, text: string) => {
    texts[path] = text;
    times[path] = ++now;
  };
  const free = (path: string) => {
    if (locked.has(path)) throw error("NoModificationAllowedError");
  };
  const folderAt = (place: string) => {
    const items = new Map<string, { listed: string; handle: object }>();
    const look = (name: string, create: boolean | undefined, make: (listed: string) => object) => {
      const item = items.get(found(name));
      if (item) return item.handle;
      if (!create) throw error("NotFoundError");
      const listed = kept(name);
      const handle = make(listed);
      items.set(found(name), { listed, handle });
      return handle;
    };
    return {
      keys: async function* () {
        for (const { listed } of items.values()) yield listed;
      },
      getDirectoryHandle: async (name: string, options?: { create?: boolean }) => look(name, options?.create, (listed) => folderAt(`${place}${listed}/`)),
      getFileHandle: async (name: string, options?: { create?: boolean }) => {
        const handle = look(name, options?.create, (listed) => {
          const path = place + listed;
          put(path, "");
          return {
            getFile: async () => {
              if (!(path in texts)) throw error("NotFoundError");
              return new File([texts[path]!], listed, { lastModified: times[path]! });
            },
            createWritable: async ({ mode }: { mode?: string }) => {
              free(path);
              if (locks && mode === "exclusive") locked.add(path);
              let written = "";
              return {
                write: async (text: string) => (written += text),
                close: async () => {
                  put(path, written);
                  locked.delete(path);
                },
                abort: async () => locked.delete(path),
              };
            },
          };
        });
        return { ...handle, asked: place + name, isSameEntry: async (other: { asked: string }) => other.asked === place + name };
      },
      removeEntry: async (name: string) => {
        const path = place + items.get(found(name))!.listed;
        free(path);
        delete texts[path];
        items.delete(found(name));
      },
    };
  };
  const root = folderAt("") as unknown as FileSystemDirectoryHandle;
  return { texts, folder: () => new Folder(root) };
}

async function write(folder: Folder, path: string, text = path): Promise<void> {
  const file = await folder.create(path);
  await file.stream.write(text);
  await file.close();
}

const TWINS: [string, string][] = [
  ["A.txt", "a.txt"], ["\u00e9.txt", "e\u0301.txt"], ["e\u0301.txt", "\u00e9.txt"], ["in/A/x", "in/a/x"], ["STRASSE", "stra\u00dfe"],
];
const fold = (name: string) => name.normalize("NFD").toLowerCase().replaceAll("ß", "ss");
const FOLDING: Record<string, () => ReturnType<typeof disk>> = {
  "keeps the first spelling": () => disk(fold),
  "has a spelling of its own": () => disk(fold, (name) => name.normalize("NFD")),
};

for (const [how, made] of Object.entries(FOLDING)) {
  test(`a disk that takes two names for one, and ${how}, gets the first file only, each time`, async () => {
    for (const [first, second] of TWINS) {
      const { texts, folder } = made();
      const run = folder();
      await write(run, first);
      await assert.rejects(write(run, second), NameRefused, second);
      assert.deepEqual(Object.values(texts), [first]);

      const again = folder();
      assert.equal(await (await again.existing(first))?.text(), first);
      again.keep(first);
      await assert.rejects(again.existing(second), NameRefused, second);
      const later = folder();
      assert.equal(await (await later.existing(second))?.text(), first, "it is met before the one whose it is");
      later.keep(first);
      await assert.rejects(later.check(second), NameRefused);
      assert.deepEqual(Object.values(texts), [first]);
    }
  });
}

test("of two names that a disk takes for one, and that are written at the same time, one is refused", async () => {
  const { texts, folder } = disk(fold);
  const run = folder();
  const [first, second] = await Promise.allSettled([write(run, "A.txt"), write(run, "a.txt")]);
  assert.deepEqual([first.status, second.status, Object.values(texts)], ["fulfilled", "rejected", ["A.txt"]]);
});

test("a disk that tells such names apart gets both files, each time", async () => {
  for (const [first, second] of TWINS) {
    const { texts, folder } = disk((name) => name);
    const run = folder();
    await write(run, first);
    await write(run, second);
    assert.deepEqual(texts, { [first]: first, [second]: second });

    const again = folder();
    for (const path of [first, second]) {
      assert.equal(await (await again.existing(path))?.text(), path);
      again.keep(path);
    }
  }
});

test("what was taken away again does not stand in another's way", async () => {
  const { texts, folder } = disk(fold);
  const run = folder();
  await (await run.create("A.txt")).abort();
  await write(run, "a.txt");
  assert.deepEqual(texts, { "a.txt": "a.txt" });
});

test("a file that another tab has finished meanwhile stays when this one is given up", async () => {
  const { texts, folder } = disk((name) => name);
  const given = await folder().create("movie");
  await write(folder(), "movie", "whole");
  await given.abort();
  assert.deepEqual(texts, { movie: "whole" });
});

test("a file that has come under the name of one that is being written is not replaced", async () => {
  const { texts, folder } = disk((name) => name);
  for (const name of ["new", "there"]) {
    if (name === "there") await write(folder(), name, "before");
    const open = await Promise.all([folder(), folder()].map(async (run) => {
      await run.existing(name);
      return run.create(name);
    }));
    await open[0]!.stream.write("first");
    await open[1]!.stream.write("other");
    await open[0]!.close();
    await assert.rejects(open[1]!.close(), NameRefused);
    await open[1]!.abort();
    assert.equal(texts[name], "first");
  }
});

test("only what was found is replaced: not what has come since, or has changed", async () => {
  const { texts, folder } = disk((name) => name);
  const run = folder();
  for (const name of ["found", "changed", "emptied"]) await write(folder(), name, "before");
  for (const name of ["found", "changed", "emptied", "come"]) await run.existing(name);
  for (const [name, text] of [["changed", "behind"], ["emptied", ""], ["come", "somebody's"]] as const) {
    const other = folder();
    await other.existing(name);
    await write(other, name, text);
  }
  await assert.rejects(write(run, "changed", "mine"), NameRefused);
  await assert.rejects(write(run, "come", "mine"), NameRefused);
  await write(run, "found", "mine");
  await write(run, "emptied", "mine");
  assert.deepEqual(texts, { found: "mine", changed: "behind", emptied: "mine", come: "somebody's" });
});

test("where a browser lets one at a time write to a file, another tab is refused at once and takes nothing away", async () => {
  const { texts, folder } = disk((name) => name, undefined, true);
  const [first, second] = await Promise.allSettled([folder().create("movie"), folder().create("movie")]);
  assert.deepEqual([first.status, second.status], ["fulfilled", "rejected"]);
  assert.equal((second as PromiseRejectedResult).reason.name, "NoModificationAllowedError");
  const { value } = first as PromiseFulfilledResult<Awaited<ReturnType<Folder["create"]>>>;
  await value.stream.write("whole");
  await value.close();
  assert.deepEqual(texts, { movie: "whole" });
});

test("a name that the browser does not allow is not said to be refused by the device, and the zip is named, which has the file", async () => {
  const root = {
    getFileHandle: async () => {
      throw new TypeError("Name is not allowed.");
    },
  };
  const folder = new Folder(root as unknown as FileSystemDirectoryHandle);
  const refused = { message: "The browser does not allow its name here: the zip has it." };
  await assert.rejects(folder.create("back\\slash.txt"), (cause) => cause instanceof NameRefused && cause.message === refused.message);
});
