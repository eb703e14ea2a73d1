import { useEffect, useState } from "preact/hooks";
import { depot } from "../api/depot";
import { DepotError } from "../api/error";
import type { Transfer } from "../api/types";
import type { Sender } from "../send/sender";
import { useLeaveWarning, useObservable } from "../ui/live";
import { Notice } from "../ui/notice";
import { Resume } from "./resume";
import { Send } from "./send";
import { Sending } from "./sending";
import { Sent } from "./sent";
import { SignIn } from "./sign_in";
import { Transfers } from "./transfers";

type SessionState = "unknown" | "out" | "in";

/** The owner's side of the page. */
export function App({ code }: { code: string | null }) {
  const [session, setSession] = useState<SessionState>(code === null ? "unknown" : "out");
  const [problem, setProblem] = useState<string | null>(null);
  const [view, setView] = useState(viewOf(location.hash));
  const [sender, setSender] = useState<Sender | null>(null);
  const [resuming, setResuming] = useState<Transfer | null>(null);
  useObservable(sender);

  useEffect(() => {
    const follow = () => {
      setView(viewOf(location.hash));
      // Whoever leaves does not go on with it unasked when he comes back.
      if (viewOf(location.hash) === "transfers") setResuming(null);
    };
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  useEffect(() => {
    if (session !== "unknown") return;
    depot.session().then(
      () => setSession("in"),
      (error: DepotError) => (error.status === 401 ? setSession("out") : setProblem(error.message)),
    );
  }, [session]);
  const busy = sender !== null && sender.phase !== "done" && sender.phase !== "closed";
  useLeaveWarning(busy);

  if (session === "unknown") {
    return <Frame>{problem ? <main class="narrow"><Notice kind="error">{problem}</Notice></main> : <main />}</Frame>;
  }
  if (session === "out") {
    return <Frame><SignIn code={code} onSignedIn={() => setSession("in")} /></Frame>;
  }
  const start = (started: Sender) => {
    setResuming(null);
    setSender(started);
  };
  const leave = () => {
    setSender(null);
    location.hash = "#/transfers";
  };
  const signOut = () => {
    depot.signOut().then(
      () => {
        sender?.close();
        setSender(null);
        setProblem(null);
        setSession("out");
      },
      (error: DepotError) => setProblem(`You are still signed in: ${error.message}`),
    );
  };
  return (
    <Frame view={view} busy={busy} onSignOut={signOut}>
      {problem && <Notice kind="error">{problem}</Notice>}
      {view === "transfers" ? (
        <Transfers
          sending={busy && sender ? sender.transfer.id : null}
          onResume={(transfer) => {
            if (!busy) {
              setSender(null);
              setResuming(transfer);
            }
            location.hash = "#/send";
          }}
        />
      ) : sender?.phase === "done" ? (
        <Sent sender={sender} onAgain={() => setSender(null)} />
      ) : sender && sender.phase !== "closed" ? (
        <Sending sender={sender} onClosed={leave} />
      ) : resuming ? (
        <Resume key={resuming.id} transfer={resuming} onStarted={start} />
      ) : (
        <Send onStarted={start} />
      )}
    </Frame>
  );
}

function viewOf(hash: string): "send" | "transfers" {
  return hash === "#/transfers" ? "transfers" : "send";
}

interface FrameProps {
  view?: "send" | "transfers";
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
            <a href="#/transfers" aria-current={view === "transfers" ? "page" : undefined}>My transfers</a>
            <button type="button" class="bare text" onClick={onSignOut}>Sign out</button>
          </nav>
        )}
      </header>
      {children}
    </>
  );
}
