import { useState } from "preact/hooks";

/** What a dialog's button does. */
interface Attempt {
  readonly action: (signal: AbortSignal) => Promise<void>;
  /** What has not been done, where it fails. */
  readonly failed: string;
  /** What is to be known where it was called off: the depot may have it already. */
  readonly unsure: string;
}

/** What a dialog's button does, and why it failed: the dialog then stays, as what is behind it may be out of sight. For the same reason
 * whoever closes it while that is under way calls it off first. */
export function useAttempt(onClose: () => void) {
  const [problem, setProblem] = useState<string | null>(null);
  const [running, setRunning] = useState<AbortController | null>(null);
  const attempt = ({ action, failed, unsure }: Attempt): void => {
    const stop = new AbortController();
    setProblem(null);
    setRunning(stop);
    action(stop.signal)
      .catch((error: Error) => setProblem(stop.signal.aborted ? unsure : `${failed}: ${error.message}`))
      .finally(() => setRunning(null));
  };
  const close = (): void => (running ? running.abort() : onClose());
  return { problem, running: running !== null, attempt, close };
}
