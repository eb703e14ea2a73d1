/** What is going to be sent, as it is being put together. */
import { Tree } from "../engine/tree";
import { Observable } from "../observable";
import type { Choice, Chosen, Unreadable } from "./chosen";

export class Selection extends Observable {
  readonly #chosen = new Map<string, Chosen>();
  tree = new Tree();
  unreadable: Unreadable[] = [];
  /** Files met so far while folders are being read; `null` when none are. */
  reading: number | null = null;

  add({ entries, unreadable }: Choice): void {
    for (const entry of entries) this.#chosen.set(entry.path, entry);
    this.unreadable = [...this.unreadable, ...unreadable];
    this.#rebuild();
  }

  /** Takes out one of the outermost files or folders. */
  remove(root: string): void {
    for (const path of this.#chosen.keys()) if (path === root || path.startsWith(`${root}/`)) this.#chosen.delete(path);
    this.unreadable = this.unreadable.filter(({ path }) => path !== root && !path.startsWith(`${root}/`));
    this.#rebuild();
  }

  setReading(files: number | null): void {
    this.reading = files;
    this.changed();
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
