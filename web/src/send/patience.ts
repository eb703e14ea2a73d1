/** How long what cannot be read is waited for: a drive or a share may be away for a moment. Time is an argument. */
import { ASLEEP } from "../engine/asleep";
import type { EntryIndex, Instant } from "../engine/units";
import type { SourceFailure } from "./sources";

/** Milliseconds for what is away with all that is next to it. */
const AWAY = 60_000;
/** For a file that is there, and beside others that can be read: another program may have it for a moment. */
const LOCKED = 5_000;

export class Patience {
  readonly #since = new Map<EntryIndex, Instant>();
  /** Since when nothing could be read. It is the device that is waited for, and not each of its files in turn. */
  #awaySince: Instant | null = null;
  #awake: Instant | null = null;

  /** The failures that have lasted. `alone`: what is next to them can be read. */
  handleFailures(failures: readonly SourceFailure[], alone: boolean, now: Instant): SourceFailure[] {
    this.handleAwake(now);
    if (!alone) this.#awaySince ??= now;
    return failures.filter(({ entry, cause }) => {
      if (!this.#since.has(entry)) this.#since.set(entry, now);
      // A folder that is gone is given up, too, while there are others to read: each of them ends the device's time, and not the entry's.
      if (!alone) return now - Math.min(this.#awaySince!, this.#since.get(entry)!) >= AWAY;
      // One that is gone from a folder that is there does not come back.
      return cause === "vanished" || now - this.#since.get(entry)! >= LOCKED;
    });
  }

  /** Nothing was tried for a while: what was away before that says nothing of how long it has been. */
  restart(): void {
    this.#awaySince = null;
    this.#since.clear();
  }

  /** To be told every second or so. */
  handleAwake(now: Instant): void {
    // A drive needs a moment after that.
    if (this.#awake !== null && now - this.#awake > ASLEEP) this.restart();
    this.#awake = now;
  }

  handleRead(entries: Iterable<EntryIndex>): void {
    this.#awaySince = null;
    if (this.#since.size > 0) for (const entry of entries) this.#since.delete(entry);
  }

  /** It is given up, or was for another reason. */
  forget(entry: EntryIndex): void {
    this.#since.delete(entry);
  }

  /** An entry that is waited for. */
  get waitingFor(): EntryIndex | null {
    for (const entry of this.#since.keys()) return entry;
    return null;
  }
}
