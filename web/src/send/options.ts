/** Switches in the page's address, for measuring (`web/README.md`): not offered anywhere on the page. */
import type { UploadOptions } from "../engine/upload";

export function uploadOptions(): UploadOptions {
  const switches = new URLSearchParams(location.search);
  const channels = Number(switches.get("channels"));
  return { hashing: switches.get("nohash") !== "1", comparing: switches.get("nocompare") !== "1", channels: channels >= 1 && channels <= 16 ? channels : undefined };
}
