/** Paths whose bytes are not UTF-8, as text that keeps them apart from each other: the bytes that are not become `%FF`, and `%`
 * becomes `%25`, as in the depot's ZIP files. A path that is UTF-8 may look like it all the same. */

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** `hex` is the path's bytes. */
export function shownPath(hex: string): string {
  const bytes = Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  let shown = "";
  for (let at = 0; at < bytes.length; ) {
    const text = characterAt(bytes, at);
    shown += text === null ? `%${hex.slice(2 * at, 2 * at + 2).toUpperCase()}` : text === "%" ? "%25" : text;
    at += text === null ? 1 : new TextEncoder().encode(text).length;
  }
  return shown;
}

/** The character that begins there, or `null` where none does. */
function characterAt(bytes: Uint8Array, at: number): string | null {
  for (let length = 1; length <= 4 && at + length <= bytes.length; length++) {
    try {
      return decoder.decode(bytes.subarray(at, at + length));
    } catch {
      // Too short for it, or none.
    }
  }
  return null;
}
