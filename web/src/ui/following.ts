/** How a link to a download is followed. The browser asks for that by itself, and of what it is refused shows no more than that it failed. */

/** Whether the depot gives what is at an address now. What keeps it from that is said by then. */
export type Allowed = (href: string) => Promise<boolean>;

type Click = Pick<MouseEvent, "button" | "ctrlKey" | "metaKey" | "shiftKey" | "altKey" | "preventDefault">;

/** Follows a link once it is known that it leads somewhere. */
export class Following {
  readonly #save: (href: string, name: string) => void;
  /** What is asked about. */
  #asked: string | null = null;

  /** `save` has the browser fetch an address under a name. */
  constructor(save: (href: string, name: string) => void) {
    this.#save = save;
  }

  /** Also by a key: browsers make a click of that. */
  async handleClick(click: Click, href: string, name: string, allowed: Allowed): Promise<void> {
    if (!isPlain(click)) return;
    click.preventDefault();
    // Whoever clicks twice means one.
    if (this.#asked === href) return;
    this.#asked = href;
    const given = await allowed(href);
    if (this.#asked === href) this.#asked = null;
    if (given) this.#save(href, name);
  }
}

/** Others mean a tab or a window, or what else the browser does with a link. */
function isPlain({ button, ctrlKey, metaKey, shiftKey, altKey }: Click): boolean {
  return button === 0 && !ctrlKey && !metaKey && !shiftKey && !altKey;
}
