import { useEffect, useRef } from "preact/hooks";
import { visible } from "../engine/visible";
import { announce } from "../ui/announcer";
import { FirstOf } from "../ui/first_of";
import { Name } from "../ui/name";
import { Notice } from "../ui/notice";
import { Words } from "../ui/words";

interface Failure {
  readonly path: string;
  readonly reason?: string | null;
}

/** What failed so far, by name, and why. There may be more at any moment: `text`, which says how many, is said of the first, and then now
 * and then. */
export function Failures({ all, text }: { all: readonly Failure[]; text: string }) {
  const isSaid = useRef(false);
  useEffect(() => {
    if (all.length === 0) return;
    announce(text, !isSaid.current);
    isSaid.current = true;
  }, [all.length]);
  if (all.length === 0) return null;
  const names = <FirstOf all={all}>{({ path, reason }) => <><b><Name>{path}</Name></b>{reason && `: ${visible(reason)}`}</>}</FirstOf>;
  return <Notice kind="error" grows below={names}><Words>{`${text}:`}</Words></Notice>;
}
