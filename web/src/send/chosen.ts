/** Files and folders that a person chose, by dropping or by a picker. */
import type { Identity } from "../engine/resume";

export interface Chosen extends Identity {
  readonly kind: "file" | "directory";
  /** What to read; `null` for a folder. */
  readonly file: File | null;
}

/** Something that cannot be sent, as it could not be read while choosing or for its path. */
export interface Unsendable {
  readonly path: string;
  readonly reason: string;
}

export interface Choice {
  readonly entries: Chosen[];
  readonly unsendable: Unsendable[];
}

const NOT_WALKED = "The browser does not look into folders that are chosen so: drop the folder here, or choose its files.";

/** Milliseconds from 1601, from which Chromium counts, to 1970. */
const CHROMIUM_EPOCH = 11_644_473_600_000;

export function chosenFile(path: string, file: File): Chosen {
  const modified = modifiedAt(file);
  const mtime = Math.floor(modified / 1000);
  const mtime_nanos = (modified - mtime * 1000) * 1_000_000;
  return { path, kind: "file", size: file.size, mtime, mtime_nanos, file };
}

/** Milliseconds since 1970. On Linux Chromium takes the second 0 for no time, which is 1601 to it, and adds the milliseconds. */
function modifiedAt({ lastModified }: File): number {
  const isSecondZero = lastModified >= -CHROMIUM_EPOCH && lastModified < 1000 - CHROMIUM_EPOCH;
  return isSecondZero ? lastModified + CHROMIUM_EPOCH : lastModified;
}

/** Browsers do not tell a folder's time: it gets the present one. */
export function chosenFolder(path: string, now: Date): Chosen {
  const mtime = Math.floor(now.getTime() / 1000);
  return { path, kind: "directory", size: 0, mtime, mtime_nanos: 0, file: null };
}

/** From `<input type="file" webkitdirectory>`. WebKit on GTK says that it knows the attribute, and gives the folder itself, as a file
 * with nothing in it: sent, that would arrive and be verified. */
export function fromFolderPicker(files: Iterable<File>, now: Date): Choice {
  const all = [...files];
  const { entries } = fromFileList(all.filter(({ webkitRelativePath }) => webkitRelativePath), now);
  const unsendable = all.filter(({ webkitRelativePath }) => !webkitRelativePath).map(({ name }) => ({ path: name, reason: NOT_WALKED }));
  return { entries, unsendable };
}

/** From `<input type="file">`. Folders are those that hold a file. */
export function fromFileList(files: Iterable<File>, now: Date): Choice {
  const entries: Chosen[] = [];
  const folders = new Set<string>();
  for (const file of files) {
    const path = pathOf(file);
    for (let at = path.indexOf("/"); at > 0; at = path.indexOf("/", at + 1)) {
      const folder = path.slice(0, at);
      if (folders.has(folder)) continue;
      folders.add(folder);
      entries.push(chosenFolder(folder, now));
    }
    entries.push(chosenFile(path, file));
  }
  return { entries, unsendable: [] };
}

/** From the picked folder on: of what was picked alone it is the name. Chromium writes `\` as `/` there, and not in the name. */
function pathOf({ name, webkitRelativePath: path }: File): string {
  const isWritten = path.endsWith(`/${name.replaceAll("\\", "/")}`);
  return isWritten ? path.slice(0, path.length - name.length) + name : path || name;
}
