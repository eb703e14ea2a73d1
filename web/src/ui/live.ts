/** Views that follow something that changes by itself. */
import { useEffect, useLayoutEffect, useReducer } from "preact/hooks";
import type { Observable } from "../observable";

/** Shows the component again whenever `subject` changes, at most once a frame. */
export function useObservable(subject: Observable | null): void {
  const [, again] = useReducer<number, void>((count) => count + 1, 0);
  // An effect would begin to listen after the next frame, and miss what changes until then.
  useLayoutEffect(() => {
    if (!subject) return;
    let frame = 0;
    const end = subject.subscribe(() => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        again();
      });
    });
    return () => {
      end();
      cancelAnimationFrame(frame);
    };
  }, [subject]);
}

/** Has the browser ask before the page is left, while `busy`. */
export function useLeaveWarning(busy: boolean): void {
  useEffect(() => {
    if (!busy) return;
    const warn = (event: BeforeUnloadEvent) => {
      event.preventDefault();
      // Browsers of before 2024 ask for this only.
      event.returnValue = true;
    };
    addEventListener("beforeunload", warn);
    return () => removeEventListener("beforeunload", warn);
  }, [busy]);
}

/** Shows the component again every `milliseconds` while `active`. */
export function useTick(active: boolean, milliseconds: number): void {
  const [, again] = useReducer<number, void>((count) => count + 1, 0);
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(() => again(), milliseconds);
    return () => clearInterval(timer);
  }, [active, milliseconds]);
}
