/** How many of what, in words: `1 file`, `1,000 files`. */
export function plural(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
