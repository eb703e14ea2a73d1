/** What an address names: one of the owner's views, or a transfer that somebody was given the link to. */

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

/** A link to a transfer. */
export interface LinkAddress {
  readonly id: string;
  readonly secret: string | null;
  /** The same as it should be, where it is not: a secret in a path is shown and written down by what a path is given to. */
  readonly clean: string | null;
}

/** `#<secret>` or `#<secret>&fp=<fingerprint>` follows the identifier; the fingerprint is for the command line. Some mail programs encode the `#`, so that
 * all of it is in the path, and some what else is no letter, too. */
export function linkOf(path: string, hash: string): LinkAddress | null {
  const [, id, encoded] = /^\/t\/([^/]+?)(?:%23([^/]*))?\/?$/.exec(path) ?? [];
  if (id === undefined) return null;
  const proof = encoded === undefined ? hash.slice(1) : encoded.replace(/%26/g, "&").replace(/%3D/gi, "=");
  const clean = encoded === undefined ? null : `/t/${id}${proof && `#${proof}`}`;
  return { id, secret: proof.split("&")[0] || null, clean };
}
