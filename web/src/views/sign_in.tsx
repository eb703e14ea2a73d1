import { useEffect, useState } from "preact/hooks";
import { depot } from "../api/depot";
import type { DepotError } from "../api/error";
import { persist } from "../api/persist";
import { Button } from "../ui/button";
import { useFocusedHeading } from "../ui/heading";
import { Notice } from "../ui/notice";
import { hindered } from "./hindered";

interface SignInProps {
  code: string | null;
  /** Why it is asked for again. */
  reason: string | null;
}

/** By a one-time code in the address, or by a pasted token. */
export function SignIn({ code, reason }: SignInProps) {
  const heading = useFocusedHeading();
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  /** Why the code's answer is not here yet. */
  const [hindrance, setHindrance] = useState<DepotError | null>(null);
  const [busy, setBusy] = useState(code !== null);

  const refused = (error: unknown) => {
    setProblem((error as Error).message);
    setBusy(false);
  };
  const signIn = (token: string) => {
    setBusy(true);
    setProblem(null);
    depot.signIn({ token }).catch(refused);
  };
  /** Nobody has the code but this page by now. */
  const signInBy = async (code: string, signal: AbortSignal) => {
    try {
      await persist(() => depot.signIn({ code }), signal, setHindrance);
    } catch (error) {
      // It works once. Whoever opens its address again is signed in, most likely.
      const isIn = await persist(() => depot.session(), signal, setHindrance).then(() => true, () => false);
      if (!isIn && !signal.aborted) refused(error);
    }
  };
  useEffect(() => {
    document.title = "Sign in · Terahaul";
    const stop = new AbortController();
    if (code !== null) void signInBy(code, stop.signal);
    // Whoever signs in elsewhere in this browser is signed in here, too.
    const look = () => document.visibilityState === "visible" && void depot.session().catch(() => {});
    document.addEventListener("visibilitychange", look);
    return () => {
      stop.abort();
      document.removeEventListener("visibilitychange", look);
    };
  }, []);

  if (busy && code !== null && !problem) return <main class="narrow"><p role="status">{hindrance ? hindered(hindrance) : "Signing in…"}</p></main>;
  return (
    <main class="narrow">
      <h1 ref={heading} tabIndex={-1}>Sign in</h1>
      {problem ? <Notice kind="error">{problem}</Notice> : reason && <Notice kind="info">{reason}</Notice>}
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          signIn(token.trim());
        }}
      >
        <label for="token">Access token</label>
        <input
          id="token" type="password" autocomplete="current-password" spellcheck={false} placeholder="tht_…" required
          value={token} onInput={(event) => setToken(event.currentTarget.value)}
        />
        <Button class="primary" held={busy || token.trim() === ""}>Sign in</Button>
        <p class="quiet">
          On the machine that runs the depot, <code>terahaul serve</code> prints an address that signs you in once, and{" "}
          <code>terahaul token create</code> makes tokens.
        </p>
      </form>
    </main>
  );
}
