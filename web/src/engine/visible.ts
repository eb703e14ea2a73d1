/** Names that others have chosen, as text that cannot lie: what has no look of its own, or turns what follows round, is spelled out, as
 * the command line does it. */

/** Control characters, and those that change the direction of text or take no room. Joiners stay: scripts and emoji need them. */
const UNSEEN = /[\p{Cc}\u00ad\u034f\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\u3164\ufeff\uffa0\ufff9-\ufffb]/gu;
const SHORT: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

export function visible(name: string): string {
  return name.replace(UNSEEN, (character) => SHORT[character] ?? `\\u{${character.codePointAt(0)!.toString(16)}}`);
}
