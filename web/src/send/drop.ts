/** Walks what was dropped on the page, folders and empty folders included. */
import { messageOf } from "../engine/message_of";
import { plural } from "../engine/plural";
import { type Choice, type Chosen, type Unsendable, chosenFile, chosenFolder } from "./chosen";

/** Files and folders asked for at the same time. */
const PARALLEL = 512;

const DROPPED = "What was dropped";
const NOT_GIVEN = "The browser cannot read it where it is: save it into a folder and choose it there. If it is a link, it leads nowhere.";

/** What a drop event carries. */
export interface Dropped {
  readonly roots: readonly FileSystemEntry[];
  /** Of which the browser gives nothing. */
  readonly unsendable: readonly Unsendable[];
}

/** Files or folders of this machine, and not text or a link. What they are is known only when they are dropped. */
export function carriesFiles(event: DragEvent): event is DragEvent & { readonly dataTransfer: DataTransfer } {
  return event.dataTransfer?.types.includes("Files") === true;
}

/** Must be called while the drop event is being handled: its items are gone afterwards. */
export function dropped(data: DataTransfer): Dropped {
  const roots: FileSystemEntry[] = [];
  const unsendable: Unsendable[] = [];
  for (const item of data.items) {
    if (item.kind !== "file") continue;
    const root = item.webkitGetAsEntry();
    if (root) roots.push(root);
    else unsendable.push({ path: item.getAsFile()?.name || DROPPED, reason: NOT_GIVEN });
  }
  return { roots, unsendable };
}

/** Reads all below what was dropped. `found` is told how many files were met so far. */
export async function walk({ roots, unsendable: notGiven }: Dropped, now: Date, found: (files: number) => void): Promise<Choice> {
  const entries: Chosen[] = [];
  const unsendable: Unsendable[] = [...notGiven];
  const queue: FileSystemEntry[] = [];
  let files = 0;
  const enqueue = (all: readonly FileSystemEntry[], within: string): void => {
    const named = all.filter(isNamed);
    for (const entry of named) queue.push(entry);
    if (named.length < all.length) unsendable.push({ path: within, reason: unnamed(all.length - named.length) });
  };
  const visit = async (entry: FileSystemEntry): Promise<void> => {
    const path = entry.fullPath.replace(/^\//, "");
    try {
      if (entry.isDirectory) {
        entries.push(chosenFolder(path, now));
        enqueue(await children(entry as FileSystemDirectoryEntry), path);
      } else {
        entries.push(chosenFile(path, await fileOf(entry as FileSystemFileEntry)));
        found(++files);
      }
    } catch (cause) {
      unsendable.push({ path, reason: unread(cause) });
    }
  };
  enqueue(roots, DROPPED);
  while (queue.length > 0) await Promise.all(queue.splice(-PARALLEL).map(visit));
  return { entries, unsendable };
}

/** Browsers give what has a name that is not UTF-8 an empty one, by which they find the folder that it is in, and that again for ever. */
function isNamed({ name }: FileSystemEntry): boolean {
  return name !== "";
}

function unnamed(count: number): string {
  return `${plural(count, "item")} in it cannot be read by a browser, as the names are not UTF-8: rename them, or send by the command line.`;
}

/** A browser's own words for it are for programmers. What is no refusal of the browser's is the page's own fault, and is said as it is. */
function unread(cause: unknown): string {
  if (!(cause instanceof DOMException)) return `The page could not read it (${messageOf(cause)}): reload the page, then choose it again, or send by the command line.`;
  return cause.name === "NotFoundError" ? "It is not there any more, or is a link that leads nowhere." : "The browser may not read it: see to its permissions, then choose it again.";
}

/** A folder's children come in batches until an empty one. A batch may be all of them, and more than a call takes arguments. */
async function children(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    const batch = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (batch.length === 0) return all;
    for (const entry of batch) all.push(entry);
  }
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}
