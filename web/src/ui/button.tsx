import type { ComponentProps } from "preact";

interface Props extends ComponentProps<"button"> {
  /** There is nothing that it may do just now. */
  held?: boolean;
}

/** A button that is held back at times. It is not disabled then, as whoever works by keys would lose his place: browsers take the focus from what is. */
export function Button({ held = false, onClick, ...attributes }: Props) {
  return <button {...attributes} aria-disabled={held} onClick={held ? refuse : onClick} />;
}

/** Of a form's button also what a key in one of its fields does. */
function refuse(event: Event): void {
  event.preventDefault();
}
