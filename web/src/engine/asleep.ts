/** Milliseconds without a word from a page's timers after which the machine slept. Browsers let a page that is hidden have one once a minute. */
export const ASLEEP = 90_000;
