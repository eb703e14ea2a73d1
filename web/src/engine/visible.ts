/** Names that others have chosen, as text that cannot lie: what has no look of its own, or turns what follows round, is spelled out, as
 * the command line does it, but that a backslash stays one. */

/** Control characters, and those that change the direction of text or show nothing. */
const UNSEEN = /[\p{Cc}\u00ad\u034f\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e007f}]/gu;
/** A name, or one in a path, of nothing but joiners and what selects variants of characters. Elsewhere they stay: scripts and emoji need them. */
const JOINS_NOTHING = /(^|\/)([\p{Join_Control}\p{Variation_Selector}]+)(?=\/|$)/gu;
const SHORT: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

export function visible(name: string): string {
  return name.replace(UNSEEN, spelled).replace(JOINS_NOTHING, (_, before: string, joiners: string) => before + Array.from(joiners, spelled).join(""));
}

function spelled(character: string): string {
  return SHORT[character] ?? `\\u{${character.codePointAt(0)!.toString(16)}}`;
}
