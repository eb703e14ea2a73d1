import type { ComponentProps } from "preact";
import { useState } from "preact/hooks";
import { type Allowed, Following } from "./following";

interface Props extends Pick<ComponentProps<"a">, "class" | "tabIndex" | "title" | "aria-label" | "children"> {
  href: string;
  /** Without one the depot's answer names it. */
  name?: string;
  allowed: Allowed;
}

/** A link to a file that the depot gives. */
export function Download({ href, name = "", allowed, ...attributes }: Props) {
  const [following] = useState(() => new Following(save));
  const handleClick = (event: MouseEvent) => {
    // What it stands in, as a row, may be something to click, too.
    event.stopPropagation();
    void following.handleClick(event, href, name, allowed);
  };
  return <a {...attributes} href={href} download={name} onClick={handleClick} />;
}

/** By a link of its own: the one that was clicked may be gone by now. Browsers take that for a download, and not for a window that pops up,
 * also when it is not in answer to a click. */
function save(href: string, name: string): void {
  const link = document.createElement("a");
  link.href = href;
  link.download = name;
  link.click();
}
