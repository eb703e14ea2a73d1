/** Says things to screen readers, politely and not too often. */
const LEAST_INTERVAL = 10_000;

/** Milliseconds for which what was said can be met in the page: it says what was, and not what is. */
const KEPT = 5000;

let last = 0;
let clearing: ReturnType<typeof setTimeout> | undefined;

/** `important` is said at once; the rest is dropped when something was said a moment ago. */
export function announce(text: string, important = false): void {
  const now = performance.now();
  if (!important && now - last < LEAST_INTERVAL) return;
  last = now;
  const region = document.getElementById("announcer");
  if (!region) return;
  region.textContent = text;
  clearTimeout(clearing);
  clearing = setTimeout(() => (region.textContent = ""), KEPT);
}
