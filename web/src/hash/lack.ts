/** What keeps a browser from computing hashes, without which nothing is sent, or saved into a folder. */
import { Observable } from "../observable";

export type Lack = "WebAssembly" | "workers";

class Hashing extends Observable {
  /** `null` as far as nobody has found any. */
  lack: Lack | null = typeof WebAssembly === "undefined" ? "WebAssembly" : null;

  handleLack(lack: Lack): void {
    if (this.lack === lack) return;
    this.lack = lack;
    this.changed();
  }
}

/** Of this browser, here. */
export const hashing = new Hashing();

const SAYS: Record<Lack, string> = {
  WebAssembly:
    "This browser does not run WebAssembly here, by which everything is verified: Lockdown Mode and other strict settings switch it off. Allow it for this site, then reload the page",
  workers:
    "This browser does not let the page start a worker, by which everything is verified: its settings or an extension may forbid it. Allow it for this site, then reload the page",
};

/** Why nothing can be sent, and what to do. */
export function cannotSend(lack: Lack): string {
  return `${SAYS[lack]}, or send by another browser or the command line.`;
}

/** Why nothing can be saved into a folder, and what to do. */
export function cannotSave(lack: Lack): string {
  return `${SAYS[lack]}, or download the zip.`;
}
