import { useEffect, useRef } from "preact/hooks";

/** A view's heading takes the focus when the view is shown, so that a screen reader says where it is now. */
export function useFocusedHeading() {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return heading;
}
