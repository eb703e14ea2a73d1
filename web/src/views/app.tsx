import { useEffect, useRef, useState } from "preact/hooks";
import { depot } from "../api/depot";
import { type DepotError, NO_COOKIE } from "../api/error";
import { persist } from "../api/persist";
import { session } from "../api/session";
import { hold, holdBusy, sentByTabs } from "../api/tabs";
import type { Transfer } from "../api/types";
import { visible } from "../engine/visible";
import { emptyDraft } from "../send/draft";
import { type Resuming, resumingOf, resumingWith } from "../send/resuming";
import type { Sender } from "../send/sender";
import { told } from "../ui/attempt";
import { useAwake, useLeaveWarning, useObservable } from "../ui/live";
import { Notice } from "../ui/notice";
import { SEND, TRANSFERS, type View, resumeHash, viewOf } from "./address";
import { hindered } from "./hindered";
import { Resume } from "./resume";
import { Send } from "./send";
import { Sending } from "./sending";
import { Sent } from "./sent";
import { SignIn } from "./sign_in";
import { SIGNING_OUT, SignOut } from "./sign_out";
import { Transfers } from "./transfers";
import { transfersTitle } from "./transfers_title";

/** Milliseconds that signing out waits for what was called off: over a lost line that may be for ever. */
const CALLING_OFF = 5_000;

/** The owner's side of the page. */
export function App() {
  const [visit, setVisit] = useState(() => ({ code: takeCode(), number: 0 }));
  const [problem, setProblem] = useState<string | null>(null);
  /** Why it is not known yet whether somebody is signed in. */
  const [hindrance, setHindrance] = useState<DepotError | null>(null);
  const [view, setView] = useState(() => viewOf(location.hash));
  const [draft, setDraft] = useState(emptyDraft);
  const [sender, setSender] = useState<Sender | null>(null);
  const shown = useRef<Sender | null>(null);
  /** What signing out would stop, while that is asked. */
  const [stopping, setStopping] = useState<Sender | null>(null);
  /** Whether it is asked if what other tabs send is to stop. */
  const [signsOutOthers, setSignsOutOthers] = useState(false);
  const [resuming, setResuming] = useState<Resuming | null>(null);
  useObservable(sender);
  useObservable(session);
  /** What is not shown any more sends nothing. */
  const show = (next: Sender | null) => {
    if (shown.current !== next) shown.current?.close();
    shown.current = next;
    setSender(next);
  };

  useEffect(() => {
    const follow = () => {
      const code = takeCode();
      // Also where this page takes itself for signed in: it may turn out that it is not.
      if (code !== null) setVisit(({ number }) => ({ code, number: number + 1 }));
      setView(viewOf(location.hash));
    };
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  useEffect(() => {
    if (visit.code !== null) return;
    const stop = new AbortController();
    persist(() => depot.session(), stop.signal, setHindrance).catch((error: DepotError) => (error.status !== 401 || session.state === "unknown") && setProblem(error.message));
    return () => stop.abort();
  }, []);
  useEffect(() => setProblem(null), [session.state, view]);
  useEffect(() => setSignsOutOthers(false), [session.state]);
  useEffect(() => {
    if (session.state !== "in") return;
    setVisit((last) => ({ ...last, code: null }));
    if (sender?.phase === "stopped") sender.resume();
    // It could not begin, as nobody was signed in.
    if (sender?.phase === "closed") show(null);
  }, [session.state]);
  const beginning = sender?.phase === "beginning" ? sender : null;
  const busy = sender !== null && !beginning && sender.phase !== "done" && sender.phase !== "closed";
  useLeaveWarning(busy);
  const active = busy && sender.phase !== "stopped" && !sender.upload.paused;
  useAwake(active);
  useEffect(() => (active ? holdBusy() : undefined), [active]);
  const sending = busy ? sender.transfer.id : null;
  useEffect(() => (sending === null ? undefined : hold(sending)), [sending]);
  useEffect(() => {
    if (view.name !== "resume") return;
    if (!busy) return setResuming((before) => resumingOf(view.transfer, null, before));
    // It goes on, or another is being sent.
    history.replaceState(null, "", SEND);
    setView(viewOf(SEND));
  }, [view, busy, session.state]);

  if (session.state === "unknown" && visit.code === null) {
    return (
      <Frame>
        <main class="narrow">
          {problem ? (
            <Notice kind="error">{problem} <button onClick={() => location.reload()}>Try again</button></Notice>
          ) : hindrance && <p role="status">{hindered(hindrance)}</p>}
        </main>
      </Frame>
    );
  }
  if (session.state !== "in") {
    const reason = session.isCookieless ? NO_COOKIE : session.state === "ended" ? ended(busy ? visible(sender.transfer.name) : null) : null;
    return <Frame><SignIn key={visit.number} code={visit.code} reason={reason} /></Frame>;
  }
  const goOn = (started: Sender) => {
    if (resuming?.selection === draft.selection) setDraft(emptyDraft());
    setResuming(null);
    show(started);
  };
  /** Not in the view that asks for it, which may be left meanwhile: what was chosen is to be sent once. */
  const begin = async (begun: Sender) => {
    show(begun);
    if (!(await begun.begun)) return;
    setResuming(null);
    // What was too much is still chosen, so that some of it can be left out.
    if (await begun.taken) setDraft(emptyDraft());
  };
  const goOnWith = (transfer: Transfer) => {
    if (!beginning) show(null);
    setResuming((before) => resumingOf(transfer.id, transfer, before));
    location.hash = resumeHash(transfer.id);
  };
  /** Whoever dropped a folder to go on with it need not drop it again. */
  const goOnWithChosen = (transfer: Transfer) => {
    setResuming((before) => resumingWith(transfer, draft.selection, before));
    location.hash = resumeHash(transfer.id);
  };
  /** Another may be shown by now. */
  const leave = (left: Sender) => {
    if (shown.current !== left) return;
    show(null);
    location.hash = TRANSFERS;
  };
  const handleChanged = (id: string, changed: Transfer | null) => {
    const sent = shown.current;
    if (sent?.phase !== "done" || sent.transfer.id !== id) return;
    if (changed) sent.handleChanged(changed);
    else show(null);
  };
  const signOut = async (signal?: AbortSignal) => {
    const end = () => depot.signOut(signal);
    // What it has made of one that is called off goes while somebody is signed in.
    beginning?.close();
    if (sender) await Promise.race([sender.begun, new Promise((resolve) => setTimeout(resolve, CALLING_OFF))]);
    if (busy) await sender.endBy(end);
    else await end();
    show(null);
    setDraft(emptyDraft());
    setResuming(null);
  };
  const askToSignOut = async () => {
    if (busy) return setStopping(sender);
    // A tab's session is its browser's.
    if ((await sentByTabs()).size > 0) return setSignsOutOthers(true);
    await signOut().catch((error: unknown) => setProblem(told(error, SIGNING_OUT)));
  };
  return (
    <Frame view={view.name} busy={busy} onSignOut={() => void askToSignOut()}>
      {problem && <Notice kind="error">{problem}</Notice>}
      {busy && sender === stopping && <SignOut name={sender.transfer.name} onSignOut={signOut} onClose={() => setStopping(null)} />}
      {signsOutOthers && <SignOut name={busy ? sender.transfer.name : null} onSignOut={signOut} onClose={() => setSignsOutOthers(false)} />}
      {view.name === "transfers" ? (
        <Transfers
          sending={sending}
          onResume={goOnWith}
          onChanged={handleChanged}
        />
      ) : view.name === "resume" && !busy ? (
        resuming?.id === view.transfer ? <Resume key={resuming.id} resuming={resuming} waiting={beginning !== null} onStarted={goOn} /> : <main />
      ) : sender?.phase === "done" ? (
        <Sent
          sender={sender}
          onResume={() => goOnWith(sender.transfer)}
          onAgain={() => show(null)}
        />
      ) : sender && busy ? (
        <Sending sender={sender} onClosed={() => leave(sender)} />
      ) : (
        <Send draft={draft} sender={sender} onChange={setDraft} onBegin={begin} onResume={goOnWithChosen} />
      )}
    </Frame>
  );
}

/** The one-time code that the address signs in with. It has no business in the history. */
function takeCode(): string | null {
  const code = /^#signin=(.+)$/.exec(location.hash)?.[1] ?? null;
  if (code !== null) history.replaceState(null, "", `${location.pathname}${location.search}${SEND}`);
  return code;
}

function ended(sending: string | null): string {
  const past = "Your session has ended, or its token was revoked. Sign in again";
  return sending === null ? `${past}.` : `${past} to continue sending “${sending}”: what was sent is safe.`;
}

interface FrameProps {
  view?: View["name"];
  busy?: boolean;
  onSignOut?: () => void;
  children: preact.ComponentChildren;
}

/** What stands round every view. */
export function Frame({ view, busy, onSignOut, children }: FrameProps) {
  return (
    <>
      <header class="top">
        <a class="brand" href="/#/send">Terahaul</a>
        {onSignOut && (
          <nav aria-label="Main">
            <a href="#/send" aria-current={view === "send" ? "page" : undefined}>Send{busy && <span class="dot" title="sending" />}</a>
            <a href="#/transfers" aria-current={view === "transfers" ? "page" : undefined}>{transfersTitle()}</a>
            <button type="button" class="bare text" onClick={onSignOut}>Sign out</button>
          </nav>
        )}
      </header>
      {children}
    </>
  );
}
