/** Walks what was dropped on the page, folders and empty folders included. */
import { type Choice, type Chosen, type Unsendable, chosenFile, chosenFolder } from "./chosen";

/** Files and folders asked for at the same time. */
const PARALLEL = 512;

/** Must be called while the drop event is being handled: its items are gone afterwards. */
export function rootsOf(data: DataTransfer): FileSystemEntry[] {
  return Array.from(data.items)
    .map((item) => item.webkitGetAsEntry())
    .filter((entry) => entry !== null);
}

/** Reads all below `roots`. `found` is told how many files were met so far. */
export async function walk(roots: FileSystemEntry[], now: Date, found: (files: number) => void): Promise<Choice> {
  const entries: Chosen[] = [];
  const unsendable: Unsendable[] = [];
  const queue = [...roots];
  const visit = async (entry: FileSystemEntry): Promise<void> => {
    const path = entry.fullPath.replace(/^\//, "");
    try {
      if (entry.isDirectory) {
        entries.push(chosenFolder(path, now));
        for (const child of await children(entry as FileSystemDirectoryEntry)) queue.push(child);
      } else {
        entries.push(chosenFile(path, await fileOf(entry as FileSystemFileEntry)));
        found(entries.length);
      }
    } catch (cause) {
      unsendable.push({ path, reason: cause instanceof Error ? cause.message : String(cause) });
    }
  };
  while (queue.length > 0) await Promise.all(queue.splice(-PARALLEL).map(visit));
  return { entries, unsendable };
}

/** A folder's children come in batches until an empty one. */
async function children(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    const batch = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (batch.length === 0) return all;
    all.push(...batch);
  }
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}
