import { type Lack, cannotSend, hashing } from "../hash/lack";
import { uploadOptions } from "../send/options";
import { useObservable } from "../ui/live";
import { Notice } from "../ui/notice";

/** What keeps this browser from sending anything, as far as is known: before something is chosen, or as soon as it is. */
export function useLack(): Lack | null {
  useObservable(hashing);
  return uploadOptions().hashing ? hashing.lack : null;
}

/** In place of what to send something by. */
export function CannotSend({ lack }: { lack: Lack }) {
  return <Notice kind="error">{cannotSend(lack)}</Notice>;
}
