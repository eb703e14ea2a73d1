import { visible } from "../engine/visible";
import { useAttempt } from "../ui/attempt";
import { Dialog } from "../ui/dialog";
import { Notice } from "../ui/notice";
import { transfersTitle } from "./transfers_title";

interface Props {
  /** The transfer that is being sent. */
  name: string;
  onSignOut: () => Promise<void>;
  onClose: () => void;
}

/** Asks whoever signs out while something is being sent: that stops it. */
export function SignOut({ name, onSignOut, onClose }: Props) {
  const { problem, running, attempt } = useAttempt();
  return (
    <Dialog title="Sign out?" onClose={onClose}>
      <p class="break">“{visible(name)}” is still being sent. Signing out stops it; go on later from <b>{transfersTitle()}</b>.</p>
      {problem && <Notice kind="error">{problem}</Notice>}
      <div class="buttons">
        <button autofocus onClick={onClose}>Go on sending</button>
        <button class="danger" disabled={running} onClick={() => attempt(onSignOut, "You are still signed in")}>Sign out</button>
      </div>
    </Dialog>
  );
}
