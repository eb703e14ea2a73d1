/** Which of the owner's views an address names. */

export type View =
  | { readonly name: "send" }
  | { readonly name: "transfers" }
  /** Going on with a transfer. */
  | { readonly name: "resume"; readonly transfer: string };

export const SEND = "#/send";
export const TRANSFERS = "#/transfers";

export function resumeHash(transfer: string): string {
  return `#/resume/${transfer}`;
}

/** What follows the `#`, which comes first. */
export function viewOf(hash: string): View {
  if (hash === TRANSFERS) return { name: "transfers" };
  const transfer = /^#\/resume\/([\w-]+)$/.exec(hash)?.[1];
  return transfer === undefined ? { name: "send" } : { name: "resume", transfer };
}
