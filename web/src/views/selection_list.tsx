import { plural } from "../engine/plural";
import type { TreeNode } from "../engine/tree";
import { visible } from "../engine/visible";
import type { Selection } from "../send/selection";
import { bytes } from "../ui/format";
import { CloseIcon } from "../ui/icons";
import { More } from "../ui/more";
import { Name } from "../ui/name";
import { Notice } from "../ui/notice";
import { TreeView } from "../ui/tree_view";

/** Names shown of those that something is said about. */
const NAMED = 20;

/** What the choice leaves out. */
export function SelectionNotices({ selection }: { selection: Selection }) {
  const { unsendable, replaced } = selection;
  const dismiss = <button type="button" onClick={() => selection.dismissNotices()}>Understood</button>;
  return (
    <>
      {unsendable.length > 0 && (
        <Notice kind="error">
          {plural(unsendable.length, "item")} will not be sent:
          <ul>
            {unsendable.slice(0, NAMED).map(({ path, reason }) => <li key={path}><b class="break"><Name>{path}</Name></b>: {reason}</li>)}
            <More than={NAMED} count={unsendable.length} />
          </ul>
          {dismiss}
        </Notice>
      )}
      {replaced.length > 0 && (
        <Notice kind="info">
          Chosen twice under the same name: only the later one of each is sent. To send both, put them into folders of their own.
          <ul>
            {replaced.slice(0, NAMED).map((path, at) => <li key={at}><Name>{path}</Name></li>)}
            <More than={NAMED} count={replaced.length} />
          </ul>
          {dismiss}
        </Notice>
      )}
    </>
  );
}

/** What will be sent. */
export function SelectionList({ selection }: { selection: Selection }) {
  const { tree } = selection;
  const remove = (node: TreeNode) =>
    node.depth === 0 && (
      <button
        type="button" class="bare" aria-label={`Remove ${visible(node.name)}`} title="Remove"
        onClick={(event) => {
          event.stopPropagation();
          selection.remove(node.path);
        }}
      >
        <CloseIcon />
      </button>
    );
  return (
    <section class="card list">
      <header>
        <h2>{plural(tree.files, "file")}</h2>
        <span class="figure">{bytes(tree.size)}</span>
      </header>
      <TreeView tree={tree} label="What will be sent" tail={remove} />
    </section>
  );
}
