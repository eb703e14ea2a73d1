/** Views that follow something that changes by itself. */
import { useEffect, useLayoutEffect, useReducer } from "preact/hooks";
import type { Observable } from "../observable";

/** Shows the component again whenever `subject` changes, at most once a frame. A hidden tab has no frames: its title is still to be
 * right. */
export function useObservable(subject: Observable | null): void {
  const [, again] = useReducer<number, void>((count) => count + 1, 0);
  // An effect would begin to listen after the next frame, and miss what changes until then.
  useLayoutEffect(() => {
    if (!subject) return;
    let frame = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const cancel = () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      frame = 0;
      timer = undefined;
    };
    const show = () => {
      cancel();
      again();
    };
    const soon = () => {
      if (document.hidden) timer ??= setTimeout(show, 0);
      else frame ||= requestAnimationFrame(show);
    };
    // The frame that was waited for does not come any more.
    const handleHidden = () => void (frame && soon());
    document.addEventListener("visibilitychange", handleHidden);
    const end = subject.subscribe(soon);
    return () => {
      end();
      document.removeEventListener("visibilitychange", handleHidden);
      cancel();
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

/** Keeps the screen on while `active`, and with it a laptop awake. Browsers let it go whenever the page is out of sight. */
export function useAwake(active: boolean): void {
  useEffect(() => {
    if (!active) return;
    let lock: Promise<WakeLockSentinel | null> | undefined;
    const release = () => void lock?.then((held) => held?.release());
    const request = () => {
      if (document.visibilityState !== "visible") return;
      release();
      // Only over a secure connection, and not where the battery is low.
      lock = navigator.wakeLock?.request("screen").catch(() => null);
    };
    request();
    document.addEventListener("visibilitychange", request);
    return () => {
      document.removeEventListener("visibilitychange", request);
      release();
    };
  }, [active]);
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
