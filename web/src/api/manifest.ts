/** A transfer's whole manifest, page by page. */
import { shownPath } from "../engine/shown_path";
import { depot } from "./depot";
import type { DepotError } from "./error";
import { plainly } from "./link";
import { persist } from "./persist";
import type { Entry } from "./types";

const PAGE = 1000;

/** `arrived` gets each page as it comes, and how many entries there are in all; `lost` each failure that will be tried again. */
export async function readManifest(
  transfer: string,
  signal: AbortSignal,
  arrived: (entries: Entry[], total: number) => void,
  lost?: (error: DepotError) => void,
  through = plainly,
): Promise<void> {
  for (let from: number | null = 0; from !== null; ) {
    const at: number = from;
    const page = await persist(() => through(() => depot.entries(transfer, at, PAGE, signal)), signal, lost);
    arrived(page.entries.map(named), page.total);
    from = page.next;
  }
}

function named(entry: Entry): Entry {
  return entry.path_hex === undefined ? entry : { ...entry, path: shownPath(entry.path_hex) };
}
