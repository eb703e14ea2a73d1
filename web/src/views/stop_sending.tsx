import { depot } from "../api/depot";
import type { Sender } from "../send/sender";
import { useAttempt } from "../ui/attempt";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { Notice } from "../ui/notice";
import { transfersTitle } from "./transfers_title";

interface Props {
  sender: Sender;
  /** It is not sent any more. */
  onStopped: () => void;
  onClose: () => void;
}

/** Asks what becomes of a transfer that is not to be sent any further. */
export function StopSending({ sender, onStopped, onClose }: Props) {
  const { problem, running, attempt, close } = useAttempt(onClose);
  const keep = () => {
    sender.close();
    onStopped();
  };
  const remove = () =>
    attempt({
      action: async (signal) => {
        if (await sender.endBy(() => depot.remove(sender.transfer.id, sender.holder, signal))) onStopped();
      },
      failed: "It was not deleted",
      unsure: "It may be deleted all the same: sending it ends by itself then.",
    });
  return (
    <Dialog title="Stop sending?" onClose={close}>
      <p>What has been sent can stay in the depot, so that you can resume it later from <b>{transfersTitle()}</b>, or be deleted now.</p>
      {problem && <Notice kind="error">{problem}</Notice>}
      <div class="buttons">
        <button autofocus onClick={close}>Keep sending</button>
        <Button held={running} onClick={keep}>Keep for later</Button>
        <Button class="danger" held={running} onClick={remove}>Delete</Button>
      </div>
    </Dialog>
  );
}
