import { useEffect, useRef, useState } from "preact/hooks";
import { depotNow } from "../api/clock";
import { depot } from "../api/depot";
import { session } from "../api/session";
import { sentByTabs } from "../api/tabs";
import type { Transfer } from "../api/types";
import { plural } from "../engine/plural";
import type { Draft } from "../send/draft";
import { Sender } from "../send/sender";
import { uploadOptions } from "../send/options";
import { unfinishedOf } from "../send/unfinished";
import { Button } from "../ui/button";
import { bytes } from "../ui/format";
import { useFallbackFocus } from "../ui/heading";
import { useObservable } from "../ui/live";
import { Name } from "../ui/name";
import { Notice } from "../ui/notice";
import { Words } from "../ui/words";
import { TRANSFERS } from "./address";
import { CannotSend, useLack } from "./cannot_send";
import { DropZone } from "./drop_zone";
import { hindered } from "./hindered";
import { SelectionList, SelectionNotices } from "./selection_list";
import { transfersTitle } from "./transfers_title";

/** Characters in a transfer's name. */
const MOST_NAME = 200;
const EXPIRIES = [1, 7, 30, 90];
/** Transfers, the latest, among which an unfinished one is looked for. */
const LOOKED_AT = 20;

/** What is offered, the depot's own number among it. */
function expiries(own: number): number[] {
  return [...new Set([...EXPIRIES, own])].sort((a, b) => a - b);
}

interface SendProps {
  draft: Draft;
  /** What begins to be sent, or could not. */
  sender: Sender | null;
  onChange: (draft: Draft) => void;
  onBegin: (sender: Sender) => void;
  onResume: (transfer: Transfer) => void;
}

/** Chooses files and starts a transfer. */
export function Send({ draft, sender, onChange, onBegin, onResume }: SendProps) {
  const { selection, name } = draft;
  const days = draft.days ?? session.days;
  const beginning = sender?.phase === "beginning" ? sender : null;
  const [unfinished, setUnfinished] = useState<Transfer | null>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const lack = useLack();
  useObservable(selection);
  useEffect(() => {
    document.title = "Send · Terahaul";
    // It is an offer: where it cannot be made, nothing is amiss.
    const look = async () => {
      const [{ transfers }, sent] = await Promise.all([depot.transfers(LOOKED_AT), sentByTabs()]);
      setUnfinished(unfinishedOf(transfers.filter(({ id }) => !sent.has(id)), depotNow()));
    };
    look().catch(() => {});
  }, []);
  // Not always: what was just chosen by keeps it.
  useFallbackFocus(heading, `${selection.empty} ${beginning !== null}`);
  // A folder's name may have control characters, which a transfer's may not.
  const wanted = (name ?? selection.suggestedName).replace(/\p{Cc}/gu, "_");

  const send = () => {
    const title = Array.from(wanted.trim()).slice(0, MOST_NAME).join("") || "Untitled";
    onBegin(Sender.begin(title, days, selection.entries, uploadOptions()));
  };

  if (beginning) {
    return (
      <main>
        <h1 ref={heading} tabIndex={-1}>Send</h1>
        <section class="card meter">
          <p class="status" role="status"><Words>{beginning.hindrance ? hindered(beginning.hindrance) : "Telling the depot what comes…"}</Words></p>
          <div class="buttons"><button onClick={() => beginning.close()}>Cancel</button></div>
        </section>
        <SelectionList selection={selection} fixed />
      </main>
    );
  }
  if (!session.maySend) {
    return (
      <main>
        <h1 ref={heading} tabIndex={-1}>Send</h1>
        <Notice kind="info">
          You are signed in with a token that may only receive: see <a href={TRANSFERS}>{transfersTitle()}</a>. To send something, sign out, then sign in with
          one that may send.
        </Notice>
      </main>
    );
  }
  if (lack !== null) {
    return (
      <main>
        <h1 ref={heading} tabIndex={-1}>Send</h1>
        <CannotSend lack={lack} />
      </main>
    );
  }
  return (
    <main>
      <h1 ref={heading} tabIndex={-1}>Send</h1>
      {sender?.problem && <Notice kind="error">{sender.problem}</Notice>}
      <DropZone selection={selection} compact={!selection.empty} />
      {unfinished && (
        <Notice kind="info">
          “<Name>{unfinished.name}</Name>” is unfinished: {bytes(Math.min(unfinished.durable_bytes, unfinished.bytes))} of {bytes(unfinished.bytes)} are
          safe in the depot.
          <div class="buttons"><button type="button" onClick={() => onResume(unfinished)}>Resume</button></div>
        </Notice>
      )}
      <SelectionNotices selection={selection} />
      {!selection.empty && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            send();
          }}
        >
          <SelectionList selection={selection} />
          <div class="fields">
            <div>
              <label for="name">Name</label>
              <input id="name" maxLength={MOST_NAME} value={wanted} onInput={(event) => onChange({ ...draft, name: event.currentTarget.value })} />
            </div>
            <div>
              <label for="expiry">Keep for</label>
              <select id="expiry" value={String(days)} onChange={(event) => onChange({ ...draft, days: Number(event.currentTarget.value) })}>
                {expiries(session.days).map((count) => <option key={count} value={String(count)}>{plural(count, "day")}</option>)}
              </select>
            </div>
          </div>
          <Button class="primary large" held={selection.reading !== null}>
            <Words>{`Send ${plural(selection.tree.files, "file")}, ${bytes(selection.tree.size)}`}</Words>
          </Button>
        </form>
      )}
    </main>
  );
}
