import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { depot } from "../api/depot";
import type { DepotError } from "../api/error";
import { readManifest } from "../api/manifest";
import { persist } from "../api/persist";
import { LOOK, sentByTabs } from "../api/tabs";
import type { Entry } from "../api/types";
import { plural } from "../engine/plural";
import { isWhole } from "../engine/resume";
import { visible } from "../engine/visible";
import type { Chosen } from "../send/chosen";
import { uploadOptions } from "../send/options";
import { looksSame, prospectOf } from "../send/prospect";
import type { Resuming } from "../send/resuming";
import { Sender } from "../send/sender";
import { Button } from "../ui/button";
import { FirstOf } from "../ui/first_of";
import { bytes } from "../ui/format";
import { useFallbackFocus, useFocusedHeading } from "../ui/heading";
import { useObservable } from "../ui/live";
import { Name } from "../ui/name";
import { Notice } from "../ui/notice";
import { Words } from "../ui/words";
import { CannotSend, useLack } from "./cannot_send";
import { DropZone } from "./drop_zone";
import { hindered } from "./hindered";
import { SelectionList, SelectionNotices } from "./selection_list";

interface Props {
  resuming: Resuming;
  /** Another transfer is being begun. */
  waiting: boolean;
  onStarted: (sender: Sender) => void;
}

/** Goes on with a transfer that was interrupted, here or on another device. */
export function Resume({ resuming, waiting, onStarted }: Props) {
  const { id, selection } = resuming;
  const heading = useFocusedHeading();
  const [transfer, setTransfer] = useState(resuming.transfer);
  const [manifest, setManifest] = useState<Entry[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  /** Why it is not all known yet, which is tried again. */
  const [hindrance, setHindrance] = useState<DepotError | null>(null);
  const [elsewhere, setElsewhere] = useState(false);
  /** How often another tab has ended to send it. */
  const [ended, setEnded] = useState(0);
  /** It is looked at once more before it goes on. */
  const [checking, setChecking] = useState(false);
  /** It is not as it was when somebody wanted to go on with it. */
  const [overtaken, setOvertaken] = useState(false);
  const left = useRef(new AbortController());
  const lack = useLack();
  useObservable(selection);
  useFallbackFocus(heading, selection.empty);
  const read = async (signal: AbortSignal) => {
    // What is known of it may be of an earlier visit.
    const now = await persist(() => depot.transfer(id), signal, setHindrance);
    setTransfer(now);
    const all: Entry[] = [];
    await readManifest(id, signal, (entries) => all.push(...entries), setHindrance);
    setHindrance(null);
    setManifest(all);
    return { transfer: now, manifest: all };
  };
  useEffect(() => {
    const stop = new AbortController();
    read(stop.signal).catch((error: Error) => stop.signal.aborted || setProblem(error.message));
    return () => stop.abort();
  }, [id, ended]);
  useEffect(() => () => left.current.abort(), []);
  useEffect(() => {
    let was = false;
    const look = async () => {
      const is = (await sentByTabs()).has(id);
      // What the other has sent is in the depot now.
      if (was && !is) setEnded((times) => times + 1);
      was = is;
      setElsewhere(is);
    };
    const timer = setInterval(() => void look().catch(() => {}), LOOK);
    look().catch(() => {});
    return () => clearInterval(timer);
  }, [id]);
  useEffect(() => {
    document.title = `${transfer ? `Resume ${visible(transfer.name)}` : "Resume sending"} · Terahaul`;
  }, [transfer?.name]);

  const prospect = useMemo(() => manifest && prospectOf(manifest, selection.entries), [manifest, selection.tree]);
  const lost = prospect?.lost ?? [];
  const moved = prospect?.moved ?? [];
  const matched = selection.empty ? null : (prospect?.matched ?? null);
  /** Others may have sent some of it since it was read, or all: what has arrived must not be given up as not chosen. */
  const check = async (shown: Entry[], chosen: readonly Chosen[], finishes: boolean) => {
    const { signal } = left.current;
    const { tree } = selection;
    const now = await read(signal);
    const found = prospectOf(now.manifest, chosen);
    const isSame = looksSame(prospectOf(shown, chosen), found) && (!finishes || isWhole(now.manifest, now.transfer));
    signal.throwIfAborted();
    // What was chosen meanwhile is to be looked at, too.
    if (selection.tree !== tree || selection.reading !== null) return;
    if (!isSame) setOvertaken(true);
    else if (now.transfer.state !== "complete") onStarted(Sender.goOn(now.transfer, now.manifest, found.matched, uploadOptions()));
  };
  const goOn = (chosen: readonly Chosen[], finishes: boolean) => {
    if (!manifest) return;
    setProblem(null);
    setOvertaken(false);
    setChecking(true);
    check(manifest, chosen, finishes)
      .catch((error: Error) => left.current.signal.aborted || setProblem(error.message))
      .finally(() => setChecking(false));
  };
  const held = waiting || elsewhere || checking;
  const kept = matched?.known.filter(({ chosen }) => chosen.kind === "file").length ?? 0;
  const isAnother = matched !== null && prospect?.isAnother === true;
  /** Nobody has the files to choose them again, it may be, and nobody needs them. */
  const mayFinish = transfer !== null && manifest !== null && isWhole(manifest, transfer) && (selection.empty || isAnother);
  const added = matched?.added.filter(({ kind }) => kind === "file").length ?? 0;

  if (!transfer || transfer.state === "complete") {
    return (
      <main>
        <h1 ref={heading} tabIndex={-1}>Resume sending</h1>
        {transfer && <Notice kind="info"><b><Name>{transfer.name}</Name></b> is complete: nothing of it is left to send.</Notice>}
        {problem ? <Notice kind="error">{problem}</Notice> : !transfer && <Reading hindrance={hindrance} />}
      </main>
    );
  }
  return (
    <main>
      <h1 ref={heading} tabIndex={-1}>Resume sending</h1>
      <p>
        <b><Name>{transfer.name}</Name></b>: {bytes(Math.min(transfer.durable_bytes, transfer.bytes))} of {bytes(transfer.bytes)} are safe in the depot. Choose the same
        files or folders again; what is there already is not sent again.
      </p>
      {problem && <Notice kind="error">{problem}</Notice>}
      {elsewhere && <Notice kind="info">Another tab of this browser is sending it.</Notice>}
      {overtaken && <Notice kind="info">It was resumed from elsewhere meanwhile: see what is left of it, then resume.</Notice>}
      {lack !== null ? <CannotSend lack={lack} /> : <DropZone selection={selection} compact={!selection.empty} />}
      <SelectionNotices selection={selection} />
      {mayFinish && (
        <Notice kind="info" below={<div class="buttons"><Button class="primary" held={held} onClick={() => goOn([], true)}>Finish</Button></div>}>
          All that was to come is in the depot: it can be finished without choosing anything.
        </Notice>
      )}
      {lost.length > 0 && (
        <Notice kind="info" below={<Names entries={lost} />}>
          {plural(lost.length, "file")} did not arrive before. Choose {lost.length === 1 ? "it" : "them"} again, too, if {lost.length === 1 ? "it is" : "they are"} to be sent:
        </Notice>
      )}
      {!selection.empty && lack === null && (
        <>
          <SelectionList selection={selection} />
          {!manifest && !problem && <Reading hindrance={hindrance} />}
          {isAnother && (
            <Notice kind="error">None of these files is part of this transfer. Choose the whole folder that was chosen the first time, not a part of it.</Notice>
          )}
          {moved.length > 0 && (
            <Notice kind="info" below={<Names entries={moved} />}>
              {plural(moved.length, "file")} {moved.length === 1 ? "has" : "have"} the name of what did not arrive, and {moved.length === 1 ? "is" : "are"} sent in its place:
            </Notice>
          )}
          {matched && matched.changed.length > 0 && (
            <Notice kind="info" below={<Names entries={matched.changed} />}>
              {plural(matched.changed.length, "file")} changed since. The earlier content is dropped, the present one is sent:
            </Notice>
          )}
          {matched && matched.displaced.length > 0 && !isAnother && (
            <Notice kind="error" below={<Names entries={matched.displaced} />}>
              {plural(matched.displaced.length, "item")} will be dropped, as what was the folder of {matched.displaced.length === 1 ? "it" : "them"} is a file now:
            </Notice>
          )}
          {matched && matched.missing.length > 0 && !isAnother && (
            <Notice kind="error" below={<Names entries={matched.missing} />}>
              {plural(matched.missing.length, "unfinished file")} not chosen. Add them above, or resume without them:
            </Notice>
          )}
          <Button class="primary large" held={!matched || isAnother || selection.reading !== null || held} onClick={() => goOn(selection.entries, false)}>
            <Words>{`Resume with ${plural(kept + added, "file")}`}</Words>
          </Button>
        </>
      )}
      {checking && <Reading hindrance={hindrance} />}
    </main>
  );
}

function Reading({ hindrance }: { hindrance: DepotError | null }) {
  return <p role="status"><Words>{hindrance ? hindered(hindrance) : "Reading what the depot has…"}</Words></p>;
}

function Names({ entries }: { entries: readonly { path: string }[] }) {
  return (
    <FirstOf all={entries}>{({ path }) => <Name>{path}</Name>}</FirstOf>
  );
}
