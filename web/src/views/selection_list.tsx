import type { TreeNode } from "../engine/tree";
import type { Selection } from "../send/selection";
import { bytes, plural } from "../ui/format";
import { CloseIcon } from "../ui/icons";
import { Notice } from "../ui/notice";
import { TreeView } from "../ui/tree_view";

/** What will be sent, and what could not be read. */
export function SelectionList({ selection }: { selection: Selection }) {
  const { tree, unreadable } = selection;
  const remove = (node: TreeNode) =>
    node.depth === 0 && (
      <button
        type="button" class="bare" aria-label={`Remove ${node.name}`} title="Remove"
        onClick={(event) => {
          event.stopPropagation();
          selection.remove(node.path);
        }}
      >
        <CloseIcon />
      </button>
    );
  return (
    <>
      {unreadable.length > 0 && (
        <Notice kind="error">
          {plural(unreadable.length, "item")} cannot be read and will not be sent:
          <ul>{unreadable.slice(0, 20).map(({ path, reason }) => <li key={path}><b>{path}</b>: {reason}</li>)}</ul>
        </Notice>
      )}
      <section class="card list">
        <header>
          <h2>{plural(tree.files, "file")}</h2>
          <span class="figure">{bytes(tree.size)}</span>
        </header>
        <TreeView tree={tree} label="What will be sent" tail={remove} />
      </section>
    </>
  );
}
