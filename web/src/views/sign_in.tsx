import { useEffect, useState } from "preact/hooks";
import { depot } from "../api/depot";
import { Notice } from "../ui/notice";

/** By a one-time code in the address, or by a pasted token. */
export function SignIn({ code, onSignedIn }: { code: string | null; onSignedIn: () => void }) {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(code !== null);

  const signIn = async (proof: { code: string } | { token: string }) => {
    setBusy(true);
    setProblem(null);
    try {
      await depot.signIn(proof);
      onSignedIn();
    } catch (error) {
      setProblem((error as Error).message);
      setBusy(false);
    }
  };
  useEffect(() => {
    if (code !== null) void signIn({ code });
  }, []);

  if (busy && code !== null && !problem) return <main class="narrow"><p role="status">Signing in…</p></main>;
  return (
    <main class="narrow">
      <h1>Sign in</h1>
      {problem && <Notice kind="error">{problem}</Notice>}
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
