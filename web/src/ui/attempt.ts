import { useState } from "preact/hooks";
import { DepotError } from "../api/error";
import { messageOf } from "../engine/message_of";

/** What is said of something that the depot was asked to do. */
export interface Texts {
  /** What has not been done, where it fails. */
  readonly failed: string;
  /** What is to be known where it was called off, or its answer was lost: the depot may have done it already. */
  readonly unsure: string;
}

/** What a dialog's button does. */
interface Attempt extends Texts {
  readonly action: (signal: AbortSignal) => Promise<void>;
}

/** What became of what did not succeed, as far as anybody knows. */
export function told(error: unknown, { failed, unsure }: Texts): string {
  const isUnsure = error instanceof DepotError && error.isUnsure;
  return isUnsure ? `${error.message} ${unsure}` : `${failed}: ${messageOf(error)}`;
}

/** What a dialog's button does, and why it failed: the dialog then stays, as what is behind it may be out of sight. For the same reason
 * whoever closes it while that is under way calls it off first. */
export function useAttempt(onClose: () => void) {
  const [problem, setProblem] = useState<string | null>(null);
  const [running, setRunning] = useState<AbortController | null>(null);
  const attempt = ({ action, ...texts }: Attempt): void => {
    const stop = new AbortController();
    setProblem(null);
    setRunning(stop);
    action(stop.signal)
      .catch((error: unknown) => setProblem(stop.signal.aborted ? texts.unsure : told(error, texts)))
      .finally(() => setRunning(null));
  };
  const close = (): void => (running ? running.abort() : onClose());
  return { problem, running: running !== null, attempt, close };
}
