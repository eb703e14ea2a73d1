/** The tab that a page is in, as far as what is asked now and then depends on it. Tests have their own. */
export interface Tab {
  readonly hidden: boolean;
  /** Calls `changed` when the tab is hidden or shown, and when the network is back. Returns what ends it. */
  follow(changed: () => void): () => void;
  /** Returns what calls it off. */
  after(milliseconds: number, action: () => void): () => void;
}

export const thisTab: Tab = {
  get hidden() {
    return document.hidden;
  },
  follow(changed) {
    document.addEventListener("visibilitychange", changed);
    addEventListener("online", changed);
    return () => {
      document.removeEventListener("visibilitychange", changed);
      removeEventListener("online", changed);
    };
  },
  after(milliseconds, action) {
    const timer = setTimeout(action, milliseconds);
    return () => clearTimeout(timer);
  },
};

/** Waits so long, and not past the moment when the tab is shown again or the network is back: `true` says that it was this. While nobody
 * sees the tab it does not end. */
export function pauseWhileSeen(milliseconds: number, tab: Tab, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(false);
    const done = (woken: boolean) => {
      callOff();
      unfollow();
      signal.removeEventListener("abort", elapsed);
      resolve(woken);
    };
    const elapsed = () => done(false);
    const callOff = tab.hidden ? () => {} : tab.after(milliseconds, elapsed);
    const unfollow = tab.follow(() => (tab.hidden ? callOff() : done(true)));
    signal.addEventListener("abort", elapsed);
  });
}
