/** Words that change while they are looked at. The new ones are new to the document, too: a browser that translates has put its own in place
 * of the old ones, where nobody would see these. */
export function Words({ children }: { children: string }) {
  return <span key={children}>{children}</span>;
}
