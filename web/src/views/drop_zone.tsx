import { useRef, useState } from "preact/hooks";
import { openConnections, roundTrip } from "../api/depot";
import { channelsAtFirst } from "../engine/channel_count";
import { plural } from "../engine/plural";
import { prepareHashers } from "../hash/pool";
import { type Choice, type Chosen, fromFileList, fromFolderPicker } from "../send/chosen";
import { carriesFiles, dropped, walk } from "../send/drop";
import type { Selection } from "../send/selection";
import { announce } from "../ui/announcer";
import { FileIcon, FolderIcon, UploadIcon } from "../ui/icons";
import { Words } from "../ui/words";

/** On telephones some browsers do not: the picker would be one of files. */
const PICKS_FOLDERS = "webkitdirectory" in HTMLInputElement.prototype;

/** Takes files and folders, by dropping them or by the browser's pickers. */
export function DropZone({ selection, compact }: { selection: Selection; compact: boolean }) {
  const [over, setOver] = useState(false);
  const files = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);

  const drop = async (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (!carriesFiles(event)) return;
    expectSending();
    const all = dropped(event.dataTransfer);
    announceChosen(await selection.addFrom((found) => walk(all, new Date(), found)));
  };
  const pick = (input: HTMLInputElement, from: (files: Iterable<File>, now: Date) => Choice) => {
    expectSending();
    announceChosen(selection.add(from(input.files ?? [], new Date())));
    // Choosing the same again must count as a change.
    input.value = "";
  };

  return (
    <section
      class={`drop${over ? " over" : ""}${compact ? " compact" : ""}`}
      aria-label="Choose what to send"
      onDragOver={(event) => {
        // Also of a link, which some browsers would open in place of the page.
        event.preventDefault();
        if (carriesFiles(event)) setOver(true);
        else if (event.dataTransfer) event.dataTransfer.dropEffect = "none";
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => void drop(event)}
    >
      {!compact && <UploadIcon />}
      <p><Words>{selection.reading !== null ? `Reading folders: ${plural(selection.reading, "file")}` : compact ? "Drop more here, or" : "Drop files or whole folders here"}</Words></p>
      <div class="buttons">
        <button type="button" onClick={() => files.current?.click()}><FileIcon />Choose files</button>
        {PICKS_FOLDERS && <button type="button" onClick={() => folder.current?.click()}><FolderIcon />Choose a folder</button>}
      </div>
      {!compact && (
        <p class="quiet">
          Folders keep their structure; symbolic links are left out by browsers. Everything is verified as it is sent, and goes on where it stopped if it is interrupted.
        </p>
      )}
      <input ref={files} type="file" multiple hidden data-pick="files" onChange={(event) => pick(event.currentTarget, fromFileList)} />
      <input ref={folder} type="file" multiple hidden data-pick="folder" {...{ webkitdirectory: true }} onChange={(event) => pick(event.currentTarget, fromFolderPicker)} />
    </section>
  );
}

/** Of what cannot be sent a notice tells. */
function announceChosen(chosen: readonly Chosen[]): void {
  const files = chosen.filter(({ kind }) => kind === "file").length;
  if (chosen.length > 0) announce(`${files > 0 ? plural(files, "file") : plural(chosen.length, "folder")} chosen`, true);
}

/** Far away, handshakes and the workers' script take longer than it takes to press Send. */
function expectSending(): void {
  openConnections(channelsAtFirst(roundTrip()) - 1);
  prepareHashers();
}
