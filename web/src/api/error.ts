/** Of a depot that has given a cookie, and then does not get it. */
export const NO_COOKIE = "This browser does not keep the depot's cookie: allow cookies for this site, then reload the page.";

/** A request that did not succeed. `code` is the depot's, or `network` when there was no answer at all. */
export class DepotError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly status: number,
    /** Whether the same request may succeed later. */
    readonly retry: boolean,
    /** The whole answer, for codes that carry more. */
    readonly body: unknown = null,
  ) {
    super(message);
  }

  static network(): DepotError {
    return new DepotError("network", "The depot cannot be reached. Check the network connection.", 0, true);
  }

  static unreadable(status: number): DepotError {
    return new DepotError("bad_answer", "The depot's answer cannot be read: something between may have answered in its place.", status, true);
  }

  static noCookie(): DepotError {
    return new DepotError("no_cookie", NO_COOKIE, 401, false);
  }

  /** What there is no such thing as for whoever is signed in, and was for another. */
  static notShown(): DepotError {
    const message = "The token that you are signed in with does not see this transfer: sign out, then in again with the one that it was begun with.";
    return new DepotError("not_found", message, 404, false);
  }

  /** The depot itself says that there is no such thing, or not for whoever asks. */
  get isNotFound(): boolean {
    return this.code === "not_found";
  }

  /** Something between this page and the depot answered in its place: the depot says more than a status. */
  get isOthers(): boolean {
    return this.code === `http_${this.status}`;
  }

  /** Nobody knows whether the depot has done what it was asked to: no answer came, or another's, for which it may have come too late. */
  get isUnsure(): boolean {
    return this.code === "network" || this.code === "bad_answer" || (this.isOthers && this.status >= 500);
  }

  /** The same, where the same request may succeed later after all. */
  again(): DepotError {
    return new DepotError(this.code, this.message, this.status, true, this.body);
  }

  /** Reads `{"error":{code,message,retry}}`; anything else (a proxy's page, say) becomes a plain sentence. */
  static fromAnswer(status: number, text: string): DepotError {
    let body: unknown = null;
    try {
      body = JSON.parse(text);
    } catch {
      // Not the depot's own answer.
    }
    const error = (body as { error?: { code?: unknown; message?: unknown; retry?: unknown } } | null)?.error;
    if (typeof error?.code === "string" && typeof error.message === "string") {
      const retry = typeof error.retry === "boolean" ? error.retry : temporary(status);
      return new DepotError(error.code, sentence(error.message), status, retry, body);
    }
    return new DepotError(`http_${status}`, ON_THE_WAY[status] ?? `A server between this page and the depot answered with status ${status}: try again, or ask whoever runs it.`, status, temporary(status), body);
  }
}

/** A depot writes its messages as the command line puts them, behind a colon. Here they stand alone, and others follow them. */
function sentence(message: string): string {
  return message.charAt(0).toUpperCase() + message.slice(1) + (/[.!?]$/.test(message) ? "" : ".");
}

/** What is not the depot's own answer, by its status. */
const ON_THE_WAY: Record<number, string> = {
  413: "A server between this page and the depot takes no requests of this size. Ask whoever runs it to allow bodies of 256 MiB.",
  502: "A server between this page and the depot cannot reach the depot.",
  503: "A server between this page and the depot cannot reach the depot.",
  504: "A server between this page and the depot waits for the depot in vain.",
};

function temporary(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || (status >= 500 && status !== 501 && status !== 507);
}
