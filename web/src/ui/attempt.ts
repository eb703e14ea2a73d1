import { useState } from "preact/hooks";

/** What a dialog's button does, and why it failed: the dialog then stays, as what is behind it may be out of sight. */
export function useAttempt() {
  const [problem, setProblem] = useState<string | null>(null);
  const [running, setRunning] = useState(false);
  const attempt = (action: () => Promise<void>, failed: string): void => {
    setProblem(null);
    setRunning(true);
    action()
      .catch((error: Error) => setProblem(`${failed}: ${error.message}`))
      .finally(() => setRunning(false));
  };
  return { problem, running, attempt };
}
