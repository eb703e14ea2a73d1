import { plural } from "../engine/plural";
import type { TreeNode } from "../engine/tree";
import { visible } from "../engine/visible";
import type { Selection } from "../send/selection";
import { announce } from "../ui/announcer";
import { FirstOf } from "../ui/first_of";
import { bytes } from "../ui/format";
import { CloseIcon } from "../ui/icons";
import { Name } from "../ui/name";
import { Notice } from "../ui/notice";
import { TreeView } from "../ui/tree_view";
import { Words } from "../ui/words";

/** What the choice leaves out. */
export function SelectionNotices({ selection }: { selection: Selection }) {
  const { unsendable, replaced } = selection;
  const dismiss = <button type="button" onClick={() => selection.dismissNotices()}>Understood</button>;
  return (
    <>
      {unsendable.length > 0 && (
        <Notice
          kind="error"
          below={
            <>
              <FirstOf all={unsendable}>{({ path, reason }) => <><b class="break"><Name>{path}</Name></b>: {reason}</>}</FirstOf>
              {dismiss}
            </>
          }
        >
          {plural(unsendable.length, "item")} will not be sent:
        </Notice>
      )}
      {replaced.length > 0 && (
        <Notice kind="info" below={<><FirstOf all={replaced}>{(path) => <Name>{path}</Name>}</FirstOf>{dismiss}</>}>
          Chosen twice under the same name: only the later one of each is sent. To send both, put them into folders of their own.
        </Notice>
      )}
    </>
  );
}

/** What will be sent. `fixed`: nothing can be taken out any more. */
export function SelectionList({ selection, fixed = false }: { selection: Selection; fixed?: boolean }) {
  const { tree } = selection;
  const remove = (node: TreeNode) => {
    // What a folder holds goes with it, or stays.
    if (node.depth > 0) return;
    selection.remove(node.path);
    announce(`${visible(node.name)} removed, ${plural(selection.tree.files, "file")}`, true);
  };
  const tail = (node: TreeNode) =>
    node.depth === 0 && (
      <button
        type="button" class="bare" tabIndex={-1} aria-label={`Remove ${visible(node.name)}`} title="Remove (Delete key)"
        onClick={(event) => {
          event.stopPropagation();
          // Which would go with the button.
          event.currentTarget.closest<HTMLElement>("[role=treegrid]")?.focus();
          remove(node);
        }}
      >
        <CloseIcon />
      </button>
    );
  return (
    <section class="card list">
      <header>
        <h2><Words>{plural(tree.files, "file")}</Words></h2>
        <span class="figure" translate={false}>{bytes(tree.size)}</span>
      </header>
      <TreeView tree={tree} label="What will be sent" {...(fixed ? {} : { tail, onDelete: remove })} />
    </section>
  );
}
