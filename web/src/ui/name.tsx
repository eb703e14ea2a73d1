import { visible } from "../engine/visible";

/** A name that somebody has chosen. Its direction is its own, and not that of the words around it, and no browser is to translate it. */
export function Name({ children }: { children: string }) {
  return <bdi translate={false}>{visible(children)}</bdi>;
}
