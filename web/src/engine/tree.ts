/** Paths as a tree of folders, for lists that show only what is unfolded. */
import type { EntryKind } from "./resume";
import type { EntryIndex } from "./units";

export interface TreeNode {
  readonly name: string;
  readonly path: string;
  readonly depth: number;
  readonly parent: TreeNode | null;
  kind: EntryKind;
  /** Its place in the list that the tree was made from; `null` for a folder that is only part of a path. */
  entry: EntryIndex | null;
  /** A file's size; a folder's is the sum of what is below it. */
  size: number;
  /** Files below a folder. */
  files: number;
  open: boolean;
  children: TreeNode[];
}

const byName = new Intl.Collator(undefined, { numeric: true });

export class Tree {
  readonly #root: TreeNode = {
    name: "", path: "", depth: -1, parent: null, kind: "directory", entry: null, size: 0, files: 0, open: true, children: [],
  };
  readonly #nodes = new Map<string, TreeNode>();
  #unsorted = new Set<TreeNode>();
  #rows: TreeNode[] | null = null;
  #growing = false;

  /** More comes, page by page: rows stay in the order in which they came, as sorting them again with each page would take longer and longer. */
  set growing(growing: boolean) {
    this.#growing = growing;
    this.#rows = null;
  }

  /** Adds an entry; one with the same path takes the earlier one's place. */
  add(path: string, kind: EntryKind, size: number, entry: EntryIndex): void {
    const node = this.#node(path, kind);
    if (node.kind !== "directory" && node.entry !== null) this.#count(node, -1);
    // A folder's is what is below it, of which there was nothing.
    if (node.kind !== "directory") node.size = 0;
    node.kind = kind;
    node.entry = entry;
    if (kind !== "directory") {
      node.size = size;
      this.#count(node, 1);
    }
    this.#rows = null;
  }

  /** Takes away what stands for `entry`, or for an earlier one in whose place it was to come, if anything does, and folders that were only
   * part of its path. */
  remove(path: string, entry: EntryIndex): void {
    const node = this.#nodes.get(path);
    if (!node || node.entry === null || node.entry > entry) return;
    if (node.kind !== "directory") this.#count(node, -1);
    node.entry = null;
    for (let at: TreeNode | null = node; at?.parent && at.entry === null && at.children.length === 0; at = at.parent) {
      this.#nodes.delete(at.path);
      at.parent.children.splice(at.parent.children.indexOf(at), 1);
    }
    this.#rows = null;
  }

  get files(): number {
    return this.#root.files;
  }

  get size(): number {
    return this.#root.size;
  }

  /** The outermost nodes. */
  get roots(): readonly TreeNode[] {
    this.#sort();
    return this.#root.children;
  }

  /** The rows to show, from the top. */
  get rows(): readonly TreeNode[] {
    if (this.#rows) return this.#rows;
    this.#sort();
    const rows: TreeNode[] = [];
    const stack = [...this.#root.children].reverse();
    for (let node = stack.pop(); node; node = stack.pop()) {
      rows.push(node);
      if (node.open) for (let at = node.children.length - 1; at >= 0; at--) stack.push(node.children[at]!);
    }
    this.#rows = rows;
    return rows;
  }

  setOpen(node: TreeNode, open: boolean): void {
    node.open = open;
    this.#rows = null;
  }

  /** Unfolds a lone outermost folder, so that its content is seen at once. */
  openLoneRoot(): void {
    const [only, more] = this.#root.children;
    if (only && !more) this.setOpen(only, true);
  }

  #node(path: string, kind: EntryKind): TreeNode {
    const known = this.#nodes.get(path);
    if (known) return known;
    const cut = path.lastIndexOf("/");
    const parent = cut < 0 ? this.#root : this.#node(path.slice(0, cut), "directory");
    const node: TreeNode = {
      name: path.slice(cut + 1), path, depth: parent.depth + 1, parent,
      kind, entry: null, size: 0, files: 0, open: false, children: [],
    };
    parent.children.push(node);
    this.#unsorted.add(parent);
    this.#nodes.set(path, node);
    return node;
  }

  #count(node: TreeNode, sign: 1 | -1): void {
    for (let above = node.parent; above; above = above.parent) {
      above.size += sign * node.size;
      above.files += sign;
    }
  }

  #sort(): void {
    if (this.#growing) return;
    for (const node of this.#unsorted) {
      node.children.sort(
        (a, b) => Number(b.kind === "directory") - Number(a.kind === "directory") || byName.compare(a.name, b.name),
      );
    }
    this.#unsorted.clear();
  }
}
