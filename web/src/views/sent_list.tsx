import { useMemo, useRef, useState } from "preact/hooks";
import { plural } from "../engine/plural";
import { visible } from "../engine/visible";
import type { Sender } from "../send/sender";
import { Bar } from "../ui/bar";
import { bytes } from "../ui/format";
import { CheckIcon, FileIcon, WarningIcon } from "../ui/icons";
import { Name } from "../ui/name";
import { VirtualRows } from "../ui/virtual_rows";

/** Every file with how far it is. Follows the file being sent until someone scrolls. */
export function SentList({ sender }: { sender: Sender }) {
  const { entries, upload } = sender;
  const files = useMemo(
    () => entries.flatMap((entry, index) => (entry && entry.kind === "file" && !sender.isReplaced(index) ? [index] : [])),
    [entries.length],
  );
  const [following, setFollowing] = useState(true);
  const cursor = useRef(0);
  const inFlight = upload.inFlightOf();
  const finished = (index: number) => upload.isFailed(index) || upload.doneOf(index) >= entries[index]!.size;
  while (cursor.current < files.length - 1 && finished(files[cursor.current]!)) cursor.current++;

  const row = (at: number) => {
    const index = files[at]!;
    const entry = entries[index]!;
    const sent = upload.doneOf(index) + (inFlight.get(index) ?? 0);
    const failed = upload.isFailed(index);
    const cut = entry.path.lastIndexOf("/");
    const done = !failed && upload.doneOf(index) >= entry.size;
    return (
      <div key={index} role="listitem" aria-setsize={files.length} aria-posinset={at + 1} class={`row${failed ? " failed" : done ? " arrived" : ""}`}>
        <span class="name">
          {failed ? <WarningIcon /> : done ? <CheckIcon /> : <FileIcon />}
          <span class="text" title={visible(entry.path)}><Name>{entry.path.slice(cut + 1)}</Name></span>
          <span class="folder"><Name>{entry.path.slice(0, Math.max(0, cut))}</Name></span>
        </span>
        <span class="progress">
          {failed ? "not sent" : !done && sent > 0 && <Bar small value={sent / entry.size} label={visible(entry.path)} />}
        </span>
        <span class="size">{bytes(entry.size)}</span>
      </div>
    );
  };

  return (
    <section class="card list sent">
      <header><h2>{plural(files.length, "file")}</h2></header>
      <VirtualRows
        count={files.length}
        focus={following ? cursor.current : undefined}
        row={row}
        attributes={{
          role: "list",
          "aria-label": "Files",
          tabIndex: 0,
          onWheel: () => setFollowing(false),
          onPointerDown: () => setFollowing(false),
          onKeyDown: () => setFollowing(false),
        }}
      />
    </section>
  );
}
