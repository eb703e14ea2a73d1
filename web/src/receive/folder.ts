/** A folder on this device that the person gave the page leave to write to. */

/** A name that this device does not take. */
export class NameRefused extends Error {}

/** A file that is being written. Nothing is seen under its name until it is closed. */
export class NewFile {
  #undo: (() => Promise<void>) | null;

  /** `undo` takes away what opening it has left under its name. */
  constructor(
    readonly stream: FileSystemWritableFileStream,
    undo: () => Promise<void>,
  ) {
    this.#undo = undo;
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
  /** The transfer's files that this run has written, or found to be here, by what their paths have in common. */
  readonly #written = new Map<string, { path: string; handle: FileSystemFileHandle }>();

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
    await this.#refuseTwin(path, handle);
    return ifThere(handle.getFile());
  }

  /** What is at `path` is the transfer's and stays: no other name of it may stand for the same file. */
  async keep(path: string): Promise<void> {
    const handle = await this.#there(path);
    if (handle) this.#written.set(keyOf(path), { path, handle });
  }

  /** Refuses a name by which this device finds what the transfer has under another. */
  async check(path: string): Promise<void> {
    const handle = await this.#there(path);
    if (handle) await this.#refuseTwin(path, handle);
  }

  async #there(path: string): Promise<FileSystemFileHandle | null> {
    const [above, name] = split(path);
    const folder = await this.folder(above);
    return ifThere(folder.getFileHandle(name));
  }

  async #refuseTwin(path: string, handle: FileSystemFileHandle): Promise<void> {
    const other = this.#written.get(keyOf(path));
    // Each is made once, so that the same path is another's name, too, as this device has it.
    if (other && (other.path === path || (await other.handle.isSameEntry(handle)))) {
      throw new NameRefused(`This device cannot tell its name from that of ${other.path}.`);
    }
  }

  /** Opens `path` for writing. */
  async create(path: string): Promise<NewFile> {
    const [above, name] = split(path);
    const folder = await this.folder(above);
    const isNew = await this.#isNew(folder, above, name);
    const handle = await refusing(path, () => folder.getFileHandle(name, { create: true }));
    await this.#refuseTwin(path, handle);
    this.#written.set(keyOf(path), { path, handle });
    // Asking for a file that was not there has made an empty one.
    const undo = async () => {
      if (isNew) await folder.removeEntry(name);
    };
    try {
      return new NewFile(await refusing(path, () => handle.createWritable({ keepExistingData: false })), undo);
    } catch (cause) {
      await undo().catch(() => {});
      throw cause;
    }
  }

  /** Whether nothing has this name: what cannot be looked at is somebody's. */
  async #isNew(folder: FileSystemDirectoryHandle, above: string, name: string): Promise<boolean> {
    if (this.#fresh.has(above)) return true;
    try {
      await folder.getFileHandle(name);
      return false;
    } catch (cause) {
      return cause instanceof DOMException && cause.name === "NotFoundError";
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

async function refusing<T>(path: string, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (cause) {
    if (cause instanceof TypeError) throw new NameRefused("This device does not allow its name.");
    if (cause instanceof DOMException && cause.name === "TypeMismatchError") {
      throw new NameRefused(`Something of another kind is in its place: move ${path} away.`);
    }
    throw cause;
  }
}

/** Where names differ in case or in accents' encoding only, some file systems see one file. */
function keyOf(path: string): string {
  return path.toLowerCase().normalize("NFC");
}

function split(path: string): [above: string, name: string] {
  const cut = path.lastIndexOf("/");
  return [path.slice(0, Math.max(0, cut)), path.slice(cut + 1)];
}
