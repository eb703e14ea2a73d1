/** A transfer as whoever was given its link may read it: by a cookie, which ends when the transfer was to expire as the link was opened. */
import { depot } from "./depot";
import { DepotError } from "./error";
import type { Transfer } from "./types";

/** Does `action`, again if need be. */
export type Through = <T>(action: () => Promise<T>) => Promise<T>;

export const plainly: Through = (action) => action();

export class Link {
  constructor(
    readonly id: string,
    /** `null`: its owner came without it, and is signed in. */
    readonly secret: string | null,
  ) {}

  open(): Promise<Transfer> {
    return this.secret === null ? depot.transfer(this.id) : depot.openLink(this.id, this.secret);
  }

  /** Where `action` is refused for want of the cookie, the link is opened once more for it. */
  readonly through: Through = async (action) => {
    try {
      return await action();
    } catch (error) {
      if (this.secret === null || !isUnauthorized(error)) throw error;
    }
    await this.open();
    try {
      return await action();
    } catch (error) {
      throw isUnauthorized(error) && !error.isOthers ? DepotError.noCookie() : error;
    }
  };

  /** Sees to it that the browser has the cookie for what it asks for by itself, and that the transfer is there: as it is now. */
  renew(): Promise<Transfer> {
    return this.through(() => depot.transfer(this.id));
  }
}

function isUnauthorized(error: unknown): error is DepotError {
  return error instanceof DepotError && error.status === 401;
}
