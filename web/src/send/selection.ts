/** What is going to be sent, as it is being put together. */
import { refused } from "../engine/path_limits";
import { sameContent } from "../engine/resume";
import { Tree } from "../engine/tree";
import { Observable } from "../observable";
import type { Choice, Chosen, Unsendable } from "./chosen";

export class Selection extends Observable {
  readonly #chosen = new Map<string, Chosen>();
  tree = new Tree();
  readonly #unsendable = new Map<string, Unsendable>();
  /** Paths of which something else had been chosen before. */
  replaced: string[] = [];
  /** Files met so far in each of the folders' walks that are under way. */
  readonly #walks = new Map<object, number>();

  /** Returns what of it can be sent. */
  add({ entries, unsendable }: Choice): Chosen[] {
    const sendable: Chosen[] = [];
    for (const entry of entries) {
      const reason = refused(entry.path);
      if (reason === null) {
        this.#set(entry);
        sendable.push(entry);
      } else {
        this.#unsendable.set(entry.path, { path: entry.path, reason });
      }
    }
    for (const one of unsendable) {
      this.#unsendable.set(one.path, one);
      // It could be sent when it was chosen before. What is said of a folder is about some of what is in it.
      if (this.#chosen.get(one.path)?.kind === "file") this.#chosen.delete(one.path);
    }
    this.#rebuild();
    return sendable;
  }

  #set(entry: Chosen): void {
    const before = this.#chosen.get(entry.path);
    // One browser tells the time of both.
    if (before && (!sameContent(before, entry) || before.mtime_nanos !== entry.mtime_nanos)) {
      this.replaced.push(entry.path);
      // What a folder held is in no folder now.
      if (before.kind === "directory") this.#take(entry.path);
    }
    this.#chosen.set(entry.path, entry);
    this.#unsendable.delete(entry.path);
  }

  /** Takes out one of the outermost files or folders. */
  remove(root: string): void {
    this.#take(root);
    for (const path of this.#unsendable.keys()) if (isWithin(path, root)) this.#unsendable.delete(path);
    this.replaced = this.replaced.filter((path) => !isWithin(path, root));
    this.#rebuild();
  }

  #take(root: string): void {
    for (const path of this.#chosen.keys()) if (isWithin(path, root)) this.#chosen.delete(path);
  }

  /** What is said of what was chosen has been read. */
  dismissNotices(): void {
    this.#unsendable.clear();
    this.replaced = [];
    this.changed();
  }

  /** What will not be sent, and why. */
  get unsendable(): readonly Unsendable[] {
    return [...this.#unsendable.values()];
  }

  /** Files met so far while folders are being read; `null` when none are. */
  get reading(): number | null {
    if (this.#walks.size === 0) return null;
    return [...this.#walks.values()].reduce((sum, files) => sum + files, 0);
  }

  /** Adds what `walk` finds, which says how many files it has met so far. */
  async addFrom(walk: (found: (files: number) => void) => Promise<Choice>): Promise<Chosen[]> {
    const key = {};
    const found = (files: number | null) => {
      if (files === null) this.#walks.delete(key);
      else this.#walks.set(key, files);
      this.changed();
    };
    found(0);
    try {
      return this.add(await walk(found));
    } finally {
      found(null);
    }
  }

  /** In order of their paths: however they were chosen, the manifest is the same, and neighbours share blocks. */
  get entries(): Chosen[] {
    return [...this.#chosen.values()].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  }

  get empty(): boolean {
    return this.#chosen.size === 0;
  }

  /** A name to begin with. */
  get suggestedName(): string {
    const [first, ...more] = this.tree.roots;
    if (!first) return "";
    return more.length === 0 ? first.name : `${first.name} and ${more.length} more`;
  }

  #rebuild(): void {
    this.tree = new Tree();
    let at = 0;
    for (const { path, kind, size } of this.#chosen.values()) this.tree.add(path, kind, size, at++);
    this.tree.openLoneRoot();
    this.changed();
  }
}

function isWithin(path: string, root: string): boolean {
  return path === root || path.startsWith(`${root}/`);
}
