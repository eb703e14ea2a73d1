/** What the depot takes for a path: the core's limits. */

const MOST_PATH = 4096;
/** Of one name. */
const MOST_NAME = 255;
const MOST_DEPTH = 512;
/** Half of a character: Windows takes it in a name, and JSON carries it, but no depot reads it. */
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Why a path that a file system has cannot be sent; `null` where it can. */
export function refused(path: string): string | null {
  if (LONE_SURROGATE.test(path)) return "Its name cannot be written as UTF-8: rename it, or send by the command line.";
  const names = path.split("/");
  if (names.some((name) => bytesOf(name, MOST_NAME) > MOST_NAME)) return `A name of it is longer than ${MOST_NAME} bytes: rename it.`;
  if (bytesOf(path, MOST_PATH) > MOST_PATH) return `Its path is longer than ${MOST_PATH} bytes: send a folder further in.`;
  if (names.length > MOST_DEPTH) return `It is more than ${MOST_DEPTH} folders deep: send a folder further in.`;
  return null;
}

const encoder = new TextEncoder();

/** How many it is in UTF-8, or its length where even three times that stays within `most`. */
function bytesOf(text: string, most: number): number {
  return text.length * 3 <= most ? text.length : encoder.encode(text).length;
}
