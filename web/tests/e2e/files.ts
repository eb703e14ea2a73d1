/** Folders to send, and what BLAKE3 they must have at the other end. */
import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import type { TestContext } from "node:test";

const endings = new WeakMap<TestContext, (() => unknown)[]>();

/** Has `action` done at the test's end, the latest first: a depot stops before its folder goes. */
export function atEnd(test: TestContext, action: () => unknown): void {
  let actions = endings.get(test);
  if (!actions) {
    const all: (() => unknown)[] = [];
    actions = all;
    endings.set(test, all);
    test.after(async () => {
      for (let next = all.pop(); next; next = all.pop()) await next();
    });
  }
  actions.push(action);
}

/** A folder that is gone after the test. */
export async function scratch(test: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "terahaul-web-"));
  atEnd(test, () => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Repeatable content that does not compress and differs for each `seed`. */
export function content(seed: string, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let block = createHash("sha256").update(seed).digest();
  for (let at = 0; at < length; at += 65_536) {
    block = createHash("sha256").update(block).digest();
    for (let to = at; to < Math.min(at + 65_536, length); to += 32) block.copy(bytes, to);
  }
  return bytes;
}

export async function write(root: string, files: Record<string, number>): Promise<void> {
  for (const [path, length] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), content(path, length));
  }
}

/** Every file below `root` by its path, hashed; folders end with a slash. */
export async function listing(root: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const entry of await readdir(root, { withFileTypes: true, recursive: true })) {
    const path = join(entry.parentPath, entry.name);
    const name = relative(root, path);
    found[entry.isDirectory() ? `${name}/` : name] = entry.isDirectory()
      ? ""
      : createHash("sha256").update(await readFile(path)).digest("hex");
  }
  return found;
}
