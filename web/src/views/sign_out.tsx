import { visible } from "../engine/visible";
import { useAttempt } from "../ui/attempt";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Notice } from "../ui/notice";
import { transfersTitle } from "./transfers_title";

/** What becomes of signing out that does not succeed. */
export const SIGNING_OUT = {
  failed: "You are still signed in",
  unsure: "You may be signed out all the same: the page asks you to sign in again then.",
};

interface Props {
  /** The transfer that is being sent here; null where another tab sends one. */
  name: string | null;
  onSignOut: (signal: AbortSignal) => Promise<void>;
  onClose: () => void;
}

/** Asks whoever signs out while something is being sent: that stops it. */
export function SignOut({ name, onSignOut, onClose }: Props) {
  const { problem, running, attempt, close } = useAttempt(onClose);
  const signOut = () => attempt({ action: onSignOut, ...SIGNING_OUT });
  return (
    <Dialog title="Sign out?" onClose={close}>
      <p>
        {name === null ? "Another tab of this browser is still sending." : `“${visible(name)}” is still being sent.`}
        {" "}Signing out stops it; resume it later from <b>{transfersTitle()}</b>.
      </p>
      {problem && <Notice kind="error">{problem}</Notice>}
      <div class="buttons">
        <button autofocus onClick={close}>Keep sending</button>
        <Button class="danger" held={running} onClick={signOut}>Sign out</Button>
      </div>
    </Dialog>
  );
}
