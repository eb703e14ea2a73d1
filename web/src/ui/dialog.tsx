import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** A question that must be answered first. Escape is the same as closing, and where it stays all the same, it is shown anew. */
export function Dialog({ title, children, onClose }: { title: string; children: ComponentChildren; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const element = dialog.current;
    const before = document.activeElement;
    return () => {
      element?.close();
      // It is taken out of the page at once, and so gives the focus back to nobody by itself.
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  useLayoutEffect(() => {
    if (!dialog.current?.open) dialog.current?.showModal();
  });
  // That of one which was taken out of the page comes late.
  const handleClose = () => dialog.current && onClose();
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={handleClose}>
      <h2 id="dialog-title">{title}</h2>
      {children}
    </dialog>
  );
}
