const FIRST = 250;
const LAST = 30_000;

/** How long to wait, in milliseconds, after the `failures`th failure in a row (1 is the first): doubling, from a
 * quarter of a second to half a minute. `random`, in 0..1, spreads it from half to the whole. */
export function backoff(failures: number, random: number): number {
  const whole = Math.min(LAST, FIRST * 2 ** Math.min(Math.max(failures, 1) - 1, 16));
  return whole * (0.5 + random / 2);
}

/** Failures after which the delay is as long as that after something new. */
const AFTER_NEWS = 5;

/** How long to wait, in milliseconds, before asking again for what changes by itself, after so many answers in a row without anything
 * new: two to four seconds where it changes, up to half a minute where it does not. */
export function recheck(unchanged: number, random: number): number {
  return backoff(AFTER_NEWS + unchanged, random);
}
