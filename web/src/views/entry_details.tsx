import { paths } from "../api/depot";
import type { Entry } from "../api/types";
import { CopyButton } from "../ui/copy";
import { Download } from "../ui/download";
import type { Allowed } from "../ui/following";
import { bytes, dateTime } from "../ui/format";
import { DownloadIcon } from "../ui/icons";
import { Name } from "../ui/name";

/** All that is known of one file. `allowed`: `null` where there is nothing to download yet. */
export function EntryDetails({ transfer, entry, allowed }: { transfer: string; entry: Entry; allowed: Allowed | null }) {
  const file = entry.kind === "file";
  return (
    <section class="card details" aria-label="Details">
      <h2 class="break"><Name>{entry.path}</Name></h2>
      <dl>
        {file && <><dt>Size</dt><dd>{bytes(entry.size)} <span class="quiet">({entry.size.toLocaleString("en")} bytes)</span></dd></>}
        <dt>Modified</dt><dd>{dateTime(entry.mtime)}</dd>
        {entry.blake3 && <><dt>BLAKE3</dt><dd><code class="break">{entry.blake3}</code></dd></>}
      </dl>
      {file && entry.state === "complete" && (
        <div class="buttons">
          {allowed && <Download class="button" href={paths.file(transfer, entry.entry)} allowed={allowed}><DownloadIcon />Download</Download>}
          {entry.blake3 && <CopyButton text={entry.blake3} label="Copy BLAKE3" what="BLAKE3 value" />}
        </div>
      )}
    </section>
  );
}
