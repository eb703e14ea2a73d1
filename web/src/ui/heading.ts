import type { RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

/** A view's heading takes the focus when the view is shown, so that a screen reader says where it is now: at once, as keys are pressed faster
 * than pages are painted. */
export function useFocusedHeading() {
  const heading = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => heading.current?.focus(), []);
  return heading;
}

/** The heading, or what stands for one, takes the focus when what had it has gone from the page, as it may at each change of `at`: at once,
 * for the same reason. */
export function useFallbackFocus(heading: RefObject<HTMLElement | null>, at: unknown): void {
  useLayoutEffect(() => {
    if (document.activeElement === document.body) heading.current?.focus();
  }, [at]);
}
