/** The files that a transfer's entries are read from. */
import type { FailureCause } from "../api/types";
import type { Part } from "../engine/compose";
import type { EntryIndex } from "../engine/units";

/** Files probed at the same time. */
const PARALLEL = 32;

/** Files looked at on each side of those that cannot be read, and entries that are gone through for them. */
const BESIDE = 4;
const FAR = 256;

/** Parts joined before the page may do something else. */
const TOGETHER = 128;

export interface SourceFailure {
  readonly entry: EntryIndex;
  readonly cause: FailureCause;
  readonly detail: string;
}

export class Sources {
  readonly #files: (File | undefined)[] = [];

  set(entry: EntryIndex, file: File): void {
    this.#files[entry] = file;
  }

  /** What these parts are, end to end. Nothing is read yet. Each of many parts costs a browser much, so the page may
   * answer meanwhile. */
  async body(parts: readonly Part[]): Promise<Blob> {
    const bodies: Blob[] = [];
    for (let at = 0; at < parts.length; at += TOGETHER) {
      if (at > 0) await nextTurn();
      bodies.push(new Blob(parts.slice(at, at + TOGETHER).map((part) => this.#piece(part))));
    }
    return bodies.length === 1 ? bodies[0]! : new Blob(bodies);
  }

  #piece(part: Part): BlobPart {
    if (part.kind === "zeros") return new Uint8Array(part.length);
    const file = this.#files[part.entry];
    if (!file) throw new Error(`entry ${part.entry} has no file to read`);
    return part.start === 0 && part.end === file.size ? file : file.slice(part.start, part.end);
  }

  /** Which of the files that these parts come from cannot be read any more: browsers report a failed read of a
   * body like a broken connection. `whole` reads all of each part, and not its first byte only. */
  async failures(parts: readonly Part[], whole: boolean): Promise<SourceFailure[]> {
    const failures: SourceFailure[] = [];
    const slices = parts.filter((part) => part.kind === "slice");
    const probe = async (part: Part & { kind: "slice" }): Promise<void> => {
      const file = this.#files[part.entry];
      // A file that was not chosen is none that failed.
      if (!file) return;
      try {
        const end = whole ? part.end : part.start + 1;
        const { byteLength } = await file.slice(part.start, end).arrayBuffer();
        if (byteLength < end - part.start) failures.push({ entry: part.entry, cause: "changed", detail: "The file is shorter than it was when it was chosen." });
      } catch (cause) {
        failures.push({ entry: part.entry, ...reason(cause) });
      }
    };
    const together = whole ? 1 : PARALLEL;
    for (let at = 0; at < slices.length; at += together) await Promise.all(slices.slice(at, at + together).map(probe));
    return failures;
  }

  /** Whether a file next to these, most likely in the same folder, can be read: if not, all of it may be away, and not these alone. */
  async canReadBeside(failures: readonly SourceFailure[]): Promise<boolean> {
    const failed = new Set(failures.map(({ entry }) => entry));
    // Not by the elements of an array: an engine takes some 100,000 arguments, and a block has more of the smallest files.
    let [first, last] = [Infinity, -Infinity];
    for (const entry of failed) [first, last] = [Math.min(first, entry), Math.max(last, entry)];
    const near = [...this.#near(first, -1, failed), ...this.#near(first, 1, failed), ...this.#near(last, 1, failed)];
    const reads = await Promise.allSettled(near.map((file) => file.slice(0, 1).arrayBuffer()));
    return reads.some(({ status }) => status === "fulfilled");
  }

  #near(entry: EntryIndex, step: 1 | -1, failed: ReadonlySet<EntryIndex>): File[] {
    const near: File[] = [];
    for (let at = entry + step; Math.abs(at - entry) <= FAR && near.length < BESIDE; at += step) {
      const file = this.#files[at];
      // An empty one is read without a look at it.
      if (file && file.size > 0 && !failed.has(at)) near.push(file);
    }
    return near;
  }
}

/** Lets other events be handled. Timers would be held back in a tab that is not in front. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

function reason(cause: unknown): { cause: FailureCause; detail: string } {
  if (cause instanceof DOMException && cause.name === "NotFoundError") {
    return { cause: "vanished", detail: "The file is no longer where it was when it was chosen." };
  }
  return {
    cause: "unreadable",
    detail: "The browser cannot read the file any more: it was changed, moved or locked after it was chosen.",
  };
}
