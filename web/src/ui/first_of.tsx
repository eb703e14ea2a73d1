import type { ComponentChildren } from "preact";

/** There may be a million. */
const MOST = 50;

/** A list as far as anyone reads it, and how many more there are. */
export function FirstOf<T>({ all, children }: { all: readonly T[]; children: (item: T) => ComponentChildren }) {
  return (
    <ul>
      {all.slice(0, MOST).map((item, at) => <li key={at}>{children(item)}</li>)}
      {all.length > MOST && <li>and {(all.length - MOST).toLocaleString("en")} more</li>}
    </ul>
  );
}
