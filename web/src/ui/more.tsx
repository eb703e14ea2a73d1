/** A list's last line where not all of it is shown. */
export function More({ than, count }: { than: number; count: number }) {
  return count > than ? <li>and {(count - than).toLocaleString("en")} more</li> : null;
}
