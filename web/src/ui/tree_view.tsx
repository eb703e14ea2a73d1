import type { ComponentChildren } from "preact";
import { useMemo, useReducer, useState } from "preact/hooks";
import { plural } from "../engine/plural";
import type { Tree, TreeNode } from "../engine/tree";
import { visible } from "../engine/visible";
import { bytes } from "./format";
import { ChevronIcon, FileIcon, FolderIcon } from "./icons";
import { Name } from "./name";
import { VirtualRows } from "./virtual_rows";

interface Props {
  tree: Tree;
  label: string;
  /** What stands at the right of a row, after its size. For the mouse: keys reach the list and not each of its rows, so what it does
   * is to be done by a key, too, or elsewhere. */
  tail?: (node: TreeNode) => ComponentChildren;
  /** The delete key was pressed on it. */
  onDelete?: (node: TreeNode) => void;
  selected?: TreeNode | null;
  onSelect?: (node: TreeNode) => void;
}

/** A tree of folders and files, worked by mouse or by arrow keys. */
export function TreeView({ tree, label, tail, onDelete, selected, onSelect }: Props) {
  const [, again] = useReducer<number, void>((count) => count + 1, 0);
  const [active, setActive] = useState<{ index: number; node: TreeNode | null }>({ index: 0, node: null });
  const rows = tree.rows;
  /** Rows may have come before it. In the place of one that is gone it is the next. */
  const current = useMemo(() => {
    const index = Math.min(active.index, Math.max(0, rows.length - 1));
    if (active.node === null || rows[index] === active.node) return index;
    const moved = rows.indexOf(active.node);
    return moved < 0 ? index : moved;
  }, [rows, active]);

  const choose = (index: number) => {
    const node = rows[index];
    if (!node) return;
    setActive({ index, node });
    onSelect?.(node);
  };
  const toggle = (node: TreeNode, open: boolean) => {
    tree.setOpen(node, open);
    again();
  };
  const handleKey = (event: KeyboardEvent) => {
    const node = rows[current];
    if (!node || event.target !== event.currentTarget) return;
    const folder = node.children.length > 0;
    switch (event.key) {
      case "ArrowDown": choose(Math.min(rows.length - 1, current + 1)); break;
      case "ArrowUp": choose(Math.max(0, current - 1)); break;
      case "PageDown": choose(Math.min(rows.length - 1, current + 10)); break;
      case "PageUp": choose(Math.max(0, current - 10)); break;
      case "Home": choose(0); break;
      case "End": choose(rows.length - 1); break;
      case "ArrowRight":
        if (folder && !node.open) toggle(node, true);
        else if (folder) choose(current + 1);
        break;
      case "ArrowLeft":
        if (folder && node.open) toggle(node, false);
        else if (node.parent && node.parent.depth >= 0) choose(rows.indexOf(node.parent));
        break;
      case "Enter":
      case " ":
        if (folder) toggle(node, !node.open);
        else choose(current);
        break;
      // A Mac's small keyboard has the latter only.
      case "Delete":
      case "Backspace":
        if (!onDelete) return;
        onDelete(node);
        break;
      default: return;
    }
    event.preventDefault();
  };

  const row = (index: number) => {
    const node = rows[index]!;
    const folder = node.kind === "directory";
    return (
      <div
        key={node.path}
        id={`row-${index}`}
        role="row"
        aria-level={node.depth + 1}
        aria-rowindex={index + 1}
        aria-selected={onSelect ? node === selected : undefined}
        aria-expanded={node.children.length > 0 ? node.open : undefined}
        class={`row${index === current ? " active" : ""}${node === selected ? " selected" : ""}`}
        onClick={() => {
          choose(index);
          if (node.children.length > 0) toggle(node, !node.open);
        }}
      >
        <span role="gridcell" class="name" style={{ paddingLeft: `min(${node.depth * 20}px, max(40px, 100% - 15rem))` }}>
          <span class={`chevron${node.open ? " open" : ""}`}>{node.children.length > 0 && <ChevronIcon />}</span>
          {folder ? <FolderIcon /> : <FileIcon />}
          <span class="text" title={visible(node.path)}><Name>{node.name}</Name></span>
          {folder && <span class="count">{plural(node.files, "file")}</span>}
        </span>
        <span role="gridcell" class="size">{bytes(node.size)}</span>
        {tail && <span role="gridcell" class="tail">{tail(node)}</span>}
      </div>
    );
  };

  return (
    <VirtualRows
      count={rows.length}
      focus={current}
      row={row}
      attributes={{
        role: "treegrid",
        "aria-label": label,
        "aria-rowcount": rows.length,
        "aria-keyshortcuts": onDelete && "Delete",
        "aria-activedescendant": rows.length > 0 ? `row-${current}` : undefined,
        tabIndex: 0,
        onKeyDown: handleKey,
      }}
    />
  );
}
