import { depot } from "../api/depot";
import type { Sender } from "../send/sender";
import { useAttempt } from "../ui/attempt";
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
  const { problem, running, attempt } = useAttempt();
  const keep = () => {
    sender.close();
    onStopped();
  };
  const remove = async () => {
    if (await sender.endBy(() => depot.remove(sender.transfer.id))) onStopped();
  };
  return (
    <Dialog title="Stop sending?" onClose={onClose}>
      <p>What has been sent can stay in the depot, so that you can go on later from <b>{transfersTitle()}</b>, or be deleted now.</p>
      {problem && <Notice kind="error">{problem}</Notice>}
      <div class="buttons">
        <button autofocus onClick={onClose}>Go on sending</button>
        <button onClick={keep}>Keep for later</button>
        <button class="danger" disabled={running} onClick={() => attempt(remove, "It was not deleted")}>Delete</button>
      </div>
    </Dialog>
  );
}
