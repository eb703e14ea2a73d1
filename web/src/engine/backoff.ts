const FIRST = 250;
const LAST = 30_000;

/** How long to wait, in milliseconds, after the `failures`th failure in a row (1 is the first): doubling, from a
 * quarter of a second to half a minute. `random`, in 0..1, spreads it from half to the whole. */
export function backoff(failures: number, random: number): number {
  const whole = Math.min(LAST, FIRST * 2 ** Math.min(Math.max(failures, 1) - 1, 16));
  return whole * (0.5 + random / 2);
}
