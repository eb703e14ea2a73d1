import { useEffect } from "preact/hooks";
import { plural } from "../engine/plural";
import { visible } from "../engine/visible";
import type { Sender } from "../send/sender";
import { announce } from "../ui/announcer";
import { CopyButton } from "../ui/copy";
import { bytes, date } from "../ui/format";
import { useFocusedHeading } from "../ui/heading";
import { CheckIcon, WarningIcon } from "../ui/icons";
import { Name } from "../ui/name";
import { useReceipt } from "./receipt";
import { FailureList } from "./sending";

interface Props {
  sender: Sender;
  /** What failed is to be chosen once more. */
  onResume: () => void;
  onAgain: () => void;
}

/** A transfer that is over: what arrived, its link and its receipt. */
export function Sent({ sender, onResume, onAgain }: Props) {
  const heading = useFocusedHeading();
  const { transfer } = sender;
  const receipt = useReceipt(transfer);
  const arrived = sender.entries.filter((entry, index) => entry?.kind === "file" && !sender.upload.isFailed(index)).length;
  const partial = transfer.state === "partial";
  const nothing = partial && arrived === 0;
  useEffect(() => {
    document.title = `${nothing ? "Not sent" : partial ? "Partly sent" : "Sent"} · ${visible(transfer.name)} · Terahaul`;
    announce(nothing ? "Nothing was sent" : partial ? "Sent, except for some files" : "Everything was sent and verified", true);
  }, []);
  return (
    <main>
      <h1 ref={heading} tabIndex={-1} class="break"><Name>{transfer.name}</Name></h1>
      <FailureList sender={sender} />
      <section class={partial ? "card done partial" : "card done"}>
        <p class="status">
          {partial ? <WarningIcon /> : <CheckIcon />}
          {nothing ? "Nothing was sent" : partial ? `Sent, except for ${sender.failures.length > 0 ? "the files named above" : "some files"}` : "Sent, stored and verified"}
        </p>
        {!nothing && (
          <p class="quiet">
            {plural(arrived, "file")}, {bytes(sender.progress().total)}
            {transfer.expires !== null && `, kept until ${date(transfer.expires)}`}
          </p>
        )}
        {!nothing && transfer.link && (
          <>
            <label for="link">Anyone with this link can download it</label>
            <div class="with-button">
              <input id="link" readOnly value={transfer.link} onFocus={(event) => event.currentTarget.select()} />
              <CopyButton primary text={transfer.link} label="Copy link" what="Link" />
            </div>
          </>
        )}
        <div class="buttons">
          {partial && <button class={nothing ? "primary" : ""} onClick={onResume}>Choose {sender.failures.length === 1 ? "this file" : "these files"} again</button>}
          {!nothing && (
            <>
              {receipt.link}
              {/* What is said here would end with the page. */}
              <a class="button" href={`/t/${transfer.id}`} target="_blank" title="Opens in a new tab">Show its content</a>
            </>
          )}
          <button onClick={onAgain}>Send something else</button>
        </div>
        {receipt.problem}
      </section>
    </main>
  );
}
