import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { awaitFinish } from "../api/await_finish";
import { paths } from "../api/depot";
import type { DepotError } from "../api/error";
import { Link } from "../api/link";
import { readManifest } from "../api/manifest";
import { persist } from "../api/persist";
import { type Entry, type Transfer, sizeOf } from "../api/types";
import { plural } from "../engine/plural";
import { isLost } from "../engine/resume";
import { Tree, type TreeNode } from "../engine/tree";
import { visible } from "../engine/visible";
import { cannotSave, hashing } from "../hash/lack";
import { Folder } from "../receive/folder";
import { Receiver } from "../receive/receiver";
import { Button } from "../ui/button";
import { Download } from "../ui/download";
import { bytes, date } from "../ui/format";
import type { Allowed } from "../ui/following";
import { useFallbackFocus } from "../ui/heading";
import { DownloadIcon, FolderIcon } from "../ui/icons";
import { Name } from "../ui/name";
import { Notice } from "../ui/notice";
import { TreeView } from "../ui/tree_view";
import { Words } from "../ui/words";
import { Awaited } from "./awaited";
import { EntryDetails } from "./entry_details";
import { Failures } from "./failures";
import { hindered } from "./hindered";
import { type LinkProblem, linkProblem } from "./link_problem";
import { ProblemText } from "./problem_text";
import { Receiving } from "./receiving";

/** Only some browsers let a page write into a folder. */
const SAVES = "showDirectoryPicker" in window;

/** What is being sent, or is sent on, the depot gives out once that is finished. */
const NOT_YET: LinkProblem = { text: "It is being sent just now: download it when the sender has finished.", maySignIn: false, gone: false };

/** Milliseconds between two looks at a manifest that is being read. */
const REFRESH = 1000;

/** Who the link was given to sees this: what is in the transfer, and ways to get it. */
export function Receive({ id, secret }: { id: string; secret: string | null }) {
  const [transfer, setTransfer] = useState<Transfer | null>(null);
  const [problem, setProblem] = useState<LinkProblem | null>(null);
  /** Why it is not all known yet, which is tried again. */
  const [hindrance, setHindrance] = useState<DepotError | null>(null);
  /** Why a download, or saving, was not begun. */
  const [refusal, setRefusal] = useState<LinkProblem | null>(null);
  /** Downloads that were begun here, and whether one was asked for again: the browser does not tell that it broke off. */
  const begun = useRef(new Set<string>());
  const [isRetried, setIsRetried] = useState(false);
  const [selected, setSelected] = useState<TreeNode | null>(null);
  const [receiver, setReceiver] = useState<Receiver | null>(null);
  const [, again] = useReducer<number, void>((count) => count + 1, 0);
  const entries = useRef<Entry[]>([]);
  const tree = useRef(new Tree());
  /** Whether the list is read, as the transfer is now, and how many entries of it. */
  const [complete, setComplete] = useState(false);
  const loaded = useRef(0);
  /** It was not finished when it was opened. */
  const [awaited, setAwaited] = useState(false);
  const heading = useRef<HTMLHeadingElement>(null);
  const link = useMemo(() => new Link(id, secret), [id, secret]);
  const told = refusal ?? problem;
  /** Why something of it is refused that was shown. */
  const explained = (error: { message: string; status?: number; isOthers?: boolean }) => linkProblem(error, secret !== null, true);
  /** Why saving ended. */
  const ended = receiver?.problem ? explained(receiver.problem) : null;
  const gone = [problem, refusal, ended].some((one) => one?.gone === true);
  useFallbackFocus(heading, `${gone} ${receiver !== null}`);
  // What was clicked may be far below what is said of it.
  const showTop = () => heading.current?.scrollIntoView({ block: "nearest" });
  useEffect(() => void (refusal && showTop()), [refusal]);
  useEffect(() => void (isRetried && showTop()), [isRetried]);

  useEffect(() => {
    const stop = new AbortController();
    let isShown = false;
    const show = (found: Transfer) => {
      isShown = true;
      setHindrance(null);
      setTransfer(found);
    };
    /** Reads the list, or reads it again: what is known by then keeps its place, and what is chosen or unfolded stays so. */
    const read = async () => {
      const first = entries.current.length === 0;
      let shown = -Infinity;
      loaded.current = 0;
      setComplete(false);
      tree.current.growing = true;
      const take = (page: readonly Entry[]) => {
        setHindrance(null);
        for (const entry of page) {
          entries.current[entry.entry] = entry;
          if (entry.state !== "failed") tree.current.add(entry.path, entry.kind, entry.size, entry.entry);
          else if (isLost(entry)) tree.current.remove(entry.path, entry.entry);
        }
        loaded.current += page.length;
        // Once: whoever folds it again means it.
        if (first && shown < 0) tree.current.openLoneRoot();
        // Each look at it walks through all that is there.
        if (performance.now() - shown < REFRESH) return;
        shown = performance.now();
        again();
      };
      await readManifest(id, stop.signal, take, setHindrance, link.through).finally(() => (tree.current.growing = false));
      setComplete(true);
    };
    const load = async () => {
      // Each time: the link's cookie ends when the transfer was to expire, and what is being sent is kept for longer.
      const open = () => link.open();
      const found = await persist(open, stop.signal, setHindrance);
      show(found);
      document.title = `${visible(found.name)} · Terahaul`;
      setAwaited(found.state === "open");
      await read();
      if (found.state !== "open") return;
      await awaitFinish(found, open, stop.signal, { told: show, lost: setHindrance });
      await read();
    };
    load().catch((error: Error) => {
      if (stop.signal.aborted) return;
      setHindrance(null);
      setProblem(linkProblem(error, secret !== null, isShown));
    });
    return () => stop.abort();
  }, [link]);

  const intoFolder = async () => {
    if (hashing.lack !== null) return setRefusal({ text: cannotSave(hashing.lack), maySignIn: false, gone: false });
    let handle: FileSystemDirectoryHandle;
    try {
      handle = await showDirectoryPicker({ mode: "readwrite" });
    } catch {
      return; // The person closed the picker.
    }
    const started = new Receiver(id, entries.current, new Folder(handle), link.through);
    setReceiver(started);
    void started.run().then(() => again());
  };
  const close = () => {
    if (ended?.gone) {
      // What was said before is so no longer.
      setRefusal(null);
      setProblem(ended);
    }
    setReceiver(null);
  };

  const allowed = async (href: string) => {
    // It is said again if it is so again.
    setRefusal(null);
    try {
      const { state } = await link.renew();
      if (state === "open") {
        setRefusal(NOT_YET);
        return false;
      }
      if (begun.current.has(href)) setIsRetried(true);
      // It has nothing of the files.
      if (href !== paths.receipt(id)) begun.current.add(href);
      return true;
    } catch (error) {
      setRefusal(explained(error as DepotError));
      return false;
    }
  };

  // What failed and came, or was tried, once more is counted there.
  const failed = useMemo(() => entries.current.filter(isLost), [loaded.current, complete]);

  if (!transfer) {
    return (
      <main class="narrow">
        {problem ? <><h1>This transfer cannot be shown</h1><Problem problem={problem} /></> : <p role="status">{hindrance ? hindered(hindrance) : "Opening…"}</p>}
      </main>
    );
  }
  const offered = transfer.state === "open" ? null : allowed;
  // Folders without a file in them are something to have, too, but are known only once all has been read.
  const empty = complete ? tree.current.rows.length === 0 : transfer.files <= transfer.failed;
  // What grows is not all in the list.
  const counted = complete && transfer.state !== "open";
  const size = sizeOf(transfer);
  const entry = selected?.entry !== null && selected ? entries.current[selected.entry] : undefined;
  return (
    <main>
      <h1 ref={heading} tabIndex={-1} class="break"><Name>{transfer.name}</Name></h1>
      <p class="quiet">
        {plural(counted ? tree.current.files : size.files, "file")}, {bytes(counted ? tree.current.size : size.bytes)}
        {transfer.completed !== null && `, sent on ${date(transfer.completed)}`}
        {transfer.expires !== null && `, available until ${date(transfer.expires)}`}
      </p>
      {told && <Problem problem={told} />}
      {isRetried && !gone && <BreaksOff />}
      {hindrance && <p role="status">{hindered(hindrance)}</p>}
      {awaited && !problem && !gone && <Awaited transfer={transfer} />}
      <Failures all={failed} text={`${plural(failed.length, failed.every(({ kind }) => kind === "file") ? "file" : "item")} did not arrive`} />
      {receiver ? (
        <Receiving receiver={receiver} name={transfer.name} explained={explained} onClosed={close} />
      ) : (
        transfer.state !== "open" && !empty && !gone && (
          <div class="buttons get">
            <Download class="button primary large" href={paths.zip(id)} allowed={allowed}><DownloadIcon />Download all as zip</Download>
            {SAVES && (
              <Button class="large" held={!complete} onClick={() => void intoFolder()}><FolderIcon />Save into a folder</Button>
            )}
            <Download class="button large" href={paths.receipt(id)} name={`${transfer.name}.receipt.json`} allowed={allowed}><DownloadIcon />Receipt</Download>
          </div>
        )
      )}
      <section class="card list with-hashes">
        <header>
          <h2><Words>{plural(tree.current.files, "file")}</Words></h2>
          <span class="figure" translate={false}>{complete ? bytes(tree.current.size) : `loading ${loaded.current.toLocaleString("en")} of ${transfer.entries.toLocaleString("en")}`}</span>
        </header>
        <TreeView
          tree={tree.current}
          label="What is in the transfer"
          selected={selected}
          onSelect={setSelected}
          tail={(node) => <Tail id={id} entry={node.entry === null || gone ? undefined : entries.current[node.entry]} allowed={offered} />}
        />
      </section>
      {entry && !gone && <EntryDetails transfer={id} entry={entry} allowed={offered} />}
    </main>
  );
}

/** What is damaged in the depot it does not give out: the answer ends before that, and so does the download. */
function BreaksOff() {
  const mayBe = "If a download breaks off each time, something in it may be damaged in the depot";
  return (
    <Notice kind="info">
      {SAVES && hashing.lack === null ? `${mayBe}: “Save into a folder” saves the rest, and names what is damaged.` : `${mayBe}: ask the sender to send it again.`}
    </Notice>
  );
}

function Problem({ problem }: { problem: LinkProblem }) {
  return <Notice kind="error"><ProblemText problem={problem} /></Notice>;
}

/** `allowed`: `null` where there is nothing to download yet. */
function Tail({ id, entry, allowed }: { id: string; entry: Entry | undefined; allowed: Allowed | null }) {
  if (!entry || entry.kind !== "file" || entry.state !== "complete") return null;
  const name = entry.path.slice(entry.path.lastIndexOf("/") + 1);
  return (
    <>
      <code class="hash" title={`BLAKE3 ${entry.blake3}`}>{entry.blake3?.slice(0, 12)}</code>
      {allowed && (
        <Download class="button bare" tabIndex={-1} href={paths.file(id, entry.entry)} allowed={allowed} aria-label={`Download ${visible(name)}`} title="Download">
          <DownloadIcon />
        </Download>
      )}
    </>
  );
}
