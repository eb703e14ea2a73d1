/** A folder on this device that the person gave the page leave to write to. */

/** A name that this device, or the browser, does not take. */
export class NameRefused extends Error {}

/** What tells a file from another that has its name. */
type Stamp = Pick<File, "size" | "lastModified">;

/** A file that is being written. Until it is closed its name is that of what stood there before, or of an empty file. */
export class NewFile {
  readonly #isOurs: () => Promise<boolean>;
  #undo: (() => Promise<void>) | null;

  /** `isOurs`: nobody has put another file under its name. `undo` takes away what opening it has left there. */
  constructor(
    readonly stream: FileSystemWritableFileStream,
    isOurs: () => Promise<boolean>,
    undo: () => Promise<void>,
  ) {
    this.#isOurs = isOurs;
    this.#undo = undo;
  }

  /** Puts it under its name, in place of nothing but what stood there as it was opened. */
  async close(): Promise<void> {
    if (!(await this.#isOurs())) throw cameMeanwhile();
    await this.stream.close();
  }

  async abort(): Promise<void> {
    // Once: whatever has the name later is not this one's.
    const undo = this.#undo;
    this.#undo = null;
    await this.stream.abort();
    await undo?.();
  }
}

export class Folder {
  readonly #folders = new Map<string, Promise<FileSystemDirectoryHandle>>();
  /** Folders that were not there before: nothing in them needs a look. */
  readonly #fresh = new Set<string>();
  /** What was at a path before this run, as far as somebody has looked: only that may be replaced. */
  readonly #found = new Map<string, Stamp>();
  /** Paths of the transfer's files that this run has opened, or found to be here, by what they have in common. */
  readonly #taken = new Map<string, string[]>();
  /** Of those that are being opened, when they will have been. */
  readonly #opening = new Map<string, Promise<unknown>>();

  constructor(readonly root: FileSystemDirectoryHandle) {}

  /** Whether it can be looked into: its drive may have been unplugged. */
  async isThere(): Promise<boolean> {
    try {
      await this.root.keys().next();
      return true;
    } catch {
      return false;
    }
  }

  /** The folder at `path`, made with those above it. */
  folder(path: string): Promise<FileSystemDirectoryHandle> {
    if (path === "") return Promise.resolve(this.root);
    let folder = this.#folders.get(path);
    if (!folder) {
      folder = this.#make(path);
      this.#folders.set(path, folder);
    }
    return folder;
  }

  /** The file at `path` if it was there before this run. */
  async existing(path: string): Promise<File | null> {
    const [above] = split(path);
    await this.folder(above);
    if (this.#fresh.has(above)) return null;
    const handle = await this.#there(path);
    if (!handle) return null;
    await this.#refuseTwin(path, this.#namesakes(path));
    const file = await ifThere(handle.getFile());
    if (file) this.#found.set(path, stampOf(file));
    return file;
  }

  /** What is at `path` is the transfer's and stays: no other name of it may stand for the same file. */
  keep(path: string): void {
    this.#take(path);
  }

  /** Refuses a name by which this device finds what the transfer has under another. */
  async check(path: string): Promise<void> {
    if (await this.#there(path)) await this.#refuseTwin(path, this.#namesakes(path));
  }

  async #there(path: string): Promise<FileSystemFileHandle | null> {
    const [above, name] = split(path);
    const folder = await this.folder(above);
    return ifThere(folder.getFileHandle(name));
  }

  /** What some disk may take for `path`, though others tell them apart. */
  #namesakes(path: string): readonly string[] {
    return this.#taken.get(keyOf(path)) ?? [];
  }

  #take(path: string): void {
    this.#taken.set(keyOf(path), [...this.#namesakes(path), path]);
  }

  #drop(path: string): void {
    this.#taken.set(keyOf(path), this.#namesakes(path).filter((taken) => taken !== path));
  }

  /** `path` is there, or one of `namesakes` is, which this device takes for it. Two handles do not tell: they are the same entry only where
   * they were asked for by the same name. */
  async #refuseTwin(path: string, namesakes: readonly string[]): Promise<void> {
    for (const other of namesakes) {
      // Each is made once, so that the same path is another's name, too, as this device has it.
      if (other === path || !(await this.#tellsApart(path, other))) throw twinOf(other);
    }
  }

  /** Whether the names in which two paths first differ both stand in the list of the folder that they have in common. Where the disk takes
   * them for the same one does at most: that of the one that was first, or what is its own way to write both. */
  async #tellsApart(path: string, other: string): Promise<boolean> {
    const [names, others] = [path.split("/"), other.split("/")];
    const at = names.findIndex((name, index) => name !== others[index]);
    const missing = new Set([names[at], others[at]]);
    const folder = await this.folder(names.slice(0, at).join("/"));
    for await (const name of folder.keys()) {
      if (missing.delete(name) && missing.size === 0) return true;
    }
    return false;
  }

  /** Opens `path` for writing. */
  async create(path: string): Promise<NewFile> {
    const namesakes = this.#namesakes(path);
    if (namesakes.includes(path)) throw twinOf(path);
    const earlier = namesakes.map((other) => this.#opening.get(other));
    const opening = this.#open(path, namesakes, earlier);
    this.#take(path);
    this.#opening.set(path, opening);
    try {
      return await opening;
    } catch (cause) {
      this.#drop(path);
      throw cause;
    } finally {
      this.#opening.delete(path);
    }
  }

  async #open(path: string, namesakes: readonly string[], earlier: readonly (Promise<unknown> | undefined)[]): Promise<NewFile> {
    const [above, name] = split(path);
    const folder = await this.folder(above);
    // What is not there yet may be found under this name a moment later.
    await Promise.allSettled(earlier);
    const isNew = (namesakes.length === 0 && this.#fresh.has(above)) || (await isMissing(folder, name));
    if (!isNew) await this.#refuseTwin(path, namesakes);
    const handle = await refusing(path, () => folder.getFileHandle(name, { create: true }));
    // Asking for a file that was not there has made an empty one.
    const before = isNew ? null : stampOf(await handle.getFile());
    if (!mayReplace(before, this.#found.get(path))) throw cameMeanwhile();
    const isOurs = async () => mayReplace(await ifThere(handle.getFile()), before);
    const undo = async () => {
      if (!isNew) return;
      if (await isOurs()) await ifThere(folder.removeEntry(name));
      this.#drop(path);
    };
    // Two tabs that save the same do not write to the same name then. A browser that does not know of this lets both, each for itself.
    const mode = "exclusive";
    try {
      return new NewFile(await refusing(path, () => handle.createWritable({ keepExistingData: false, mode })), isOurs, undo);
    } catch (cause) {
      await undo().catch(() => {});
      throw cause;
    }
  }

  async #make(path: string): Promise<FileSystemDirectoryHandle> {
    const [above, name] = split(path);
    const parent = await this.folder(above);
    if (!this.#fresh.has(above)) {
      const there = await ifThere(parent.getDirectoryHandle(name));
      if (there) return there;
    }
    const folder = await refusing(path, () => parent.getDirectoryHandle(name, { create: true }));
    this.#fresh.add(path);
    return folder;
  }
}

/**
 * `null` where nothing of the kind has the name; why it cannot be made then, if so, is said by making it. Any other error is no proof
 * that nothing is there, which might be replaced.
 */
async function ifThere<T>(looking: Promise<T>): Promise<T | null> {
  try {
    return await looking;
  } catch (cause) {
    if (cause instanceof TypeError) return null;
    if (cause instanceof DOMException && ["NotFoundError", "TypeMismatchError"].includes(cause.name)) return null;
    throw cause;
  }
}

/** Whether nothing has this name: what cannot be looked at is somebody's. */
async function isMissing(folder: FileSystemDirectoryHandle, name: string): Promise<boolean> {
  try {
    await folder.getFileHandle(name);
    return false;
  } catch (cause) {
    return cause instanceof DOMException && cause.name === "NotFoundError";
  }
}

async function refusing<T>(path: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (cause) {
    // No disk has been asked by then: browsers have a list of their own of what no name may have in it.
    if (cause instanceof TypeError) throw new NameRefused("The browser does not allow its name here: the zip has it.");
    if (cause instanceof DOMException && cause.name === "TypeMismatchError") {
      throw new NameRefused(`Something of another kind is in its place: move ${path} away.`);
    }
    throw cause;
  }
}

/** Where names differ in case or in how their characters are composed only, some file systems see one file. What has no single capital counts
 * as the several that it has: `ß` is `SS`. */
function keyOf(path: string): string {
  return path.normalize("NFD").toLowerCase().toUpperCase().normalize("NFC");
}

function stampOf({ size, lastModified }: File): Stamp {
  return { size, lastModified };
}

/** Whether what is there may go: it is what was `known`, or it is empty, has nothing to lose, and may be what a page that was closed has left
 * of a file that it was writing. */
function mayReplace(there: Stamp | null, known: Stamp | null | undefined): boolean {
  if (!there || there.size === 0) return true;
  return there.size === known?.size && there.lastModified === known.lastModified;
}

function cameMeanwhile(): NameRefused {
  return new NameRefused("Another file of this name has come meanwhile, and stays as it is: save again to be asked about it.");
}

function twinOf(other: string): NameRefused {
  return new NameRefused(`This device cannot tell its name from that of ${other}.`);
}

function split(path: string): [above: string, name: string] {
  const cut = path.lastIndexOf("/");
  return [path.slice(0, Math.max(0, cut)), path.slice(cut + 1)];
}
