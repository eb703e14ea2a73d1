/** Says things to screen readers, politely and not too often. */
const LEAST_INTERVAL = 10_000;

let last = 0;

/** `important` is said at once; the rest is dropped when something was said a moment ago. */
export function announce(text: string, important = false): void {
  const now = performance.now();
  if (!important && now - last < LEAST_INTERVAL) return;
  last = now;
  const region = document.getElementById("announcer");
  if (region) region.textContent = text;
}
