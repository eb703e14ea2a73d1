/** Switches in the page's address, for measuring (`web/README.md`): not offered anywhere on the page. */
import type { UploadOptions } from "../engine/upload";

const MIB = 1024 * 1024;

/** What `search` says, the part of an address from `?` on. Numbers that make no sense are as if they were not there. */
export function uploadOptions(search = location.search): UploadOptions {
  const switches = new URLSearchParams(search);
  const within = (name: string, least: number, most: number) => {
    const value = Number(switches.get(name));
    return value >= least && value <= most ? value : undefined;
  };
  const chunk = within("chunk", 4, 128);
  return {
    hashing: switches.get("nohash") !== "1",
    comparing: switches.get("nocompare") !== "1",
    channels: within("channels", 1, 16),
    chunk: chunk && chunk * MIB,
  };
}
