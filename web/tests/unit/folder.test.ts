import assert from "node:assert/strict";
import { test } from "node:test";
import { Folder } from "../../src/receive/folder";

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
