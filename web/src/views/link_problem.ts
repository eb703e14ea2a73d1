/** Why a transfer is not shown to whoever opened its link, and what he can do. */

import { NO_COOKIE } from "../api/error";

export interface LinkProblem {
  readonly text: string;
  /** Its owner has no need of the link. */
  readonly maySignIn: boolean;
  /** Nothing of the transfer can be had. */
  readonly gone: boolean;
}

/** `secret`: the link had one, whole or cut short. `shown`: it did work, a while ago. */
export function linkProblem(
  error: { readonly message: string; readonly status?: number; readonly isOthers?: boolean },
  secret: boolean,
  shown: boolean,
): LinkProblem {
  switch (error.isOthers ? null : error.status) {
    case 401:
    case 403:
      // A link that did work has been opened once more by now.
      if (secret && shown && error.status === 401) return { text: NO_COOKIE, maySignIn: false, gone: false };
      return { text: "Open it by the whole link that you were given: the part after # belongs to it.", maySignIn: !secret, gone: false };
    case 404:
    case 410:
      // A depot does not tell these apart: it would tell whoever guesses.
      return {
        text: shown
          ? "This transfer is no longer here: it was deleted, or it expired. Ask the sender to send it again."
          : "This link does not work: it was not copied whole, or the transfer expired or was deleted. Copy it again, or ask the sender.",
        maySignIn: false,
        gone: true,
      };
    default:
      return { text: error.message, maySignIn: false, gone: false };
  }
}
