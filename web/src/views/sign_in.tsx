import { useEffect, useRef, useState } from "preact/hooks";
import { depot } from "../api/depot";
import { Notice } from "../ui/notice";

interface SignInProps {
  code: string | null;
  /** Why it is asked for again. */
  reason: string | null;
}

/** By a one-time code in the address, or by a pasted token. */
export function SignIn({ code, reason }: SignInProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(code !== null);

  const signIn = async (proof: { code: string } | { token: string }) => {
    setBusy(true);
    setProblem(null);
    try {
      await depot.signIn(proof);
    } catch (error) {
      // A code works once. Whoever opens its address again is signed in, most likely.
      const isIn = "code" in proof && (await depot.session().then(() => true, () => false));
      if (!isIn) {
        setProblem((error as Error).message);
        setBusy(false);
      }
    }
  };
  useEffect(() => {
    document.title = "Sign in · Terahaul";
    heading.current?.focus();
    if (code !== null) void signIn({ code });
    // Whoever signs in elsewhere in this browser is signed in here, too.
    const look = () => document.visibilityState === "visible" && void depot.session().catch(() => {});
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);

  if (busy && code !== null && !problem) return <main class="narrow"><p role="status">Signing in…</p></main>;
  return (
    <main class="narrow">
      <h1 ref={heading} tabIndex={-1}>Sign in</h1>
      {problem ? <Notice kind="error">{problem}</Notice> : reason && <Notice kind="info">{reason}</Notice>}
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          void signIn({ token: token.trim() });
        }}
      >
        <label for="token">Access token</label>
        <input
          id="token" type="password" autocomplete="current-password" spellcheck={false} placeholder="tht_…" required
          value={token} onInput={(event) => setToken(event.currentTarget.value)}
        />
        <button class="primary" disabled={busy || token.trim() === ""}>Sign in</button>
        <p class="quiet">
          On the machine that runs the depot, <code>terahaul serve</code> prints an address that signs you in once, and{" "}
          <code>terahaul token create</code> makes tokens.
        </p>
      </form>
    </main>
  );
}
