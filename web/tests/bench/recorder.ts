// Notes in the page when sending began and ended and what each request did meanwhile, by the page's own clock: asking from
// outside whether it has ended costs up to half a second.
import type { Chromium } from "./devtools";

/** Moments are in milliseconds since sending began. */
export interface Recorded {
  readonly seconds: number;
  readonly uploads: { readonly bytes: number; readonly begun: number; readonly uploaded: number; readonly answered: number }[];
  readonly calls: { readonly name: string; readonly begun: number; readonly answered: number }[];
}

/** To be called before the page is loaded. */
export async function record(chromium: Chromium): Promise<void> {
  await chromium.prepare(`globalThis.__name = (made) => made; (${note})()`);
}

/** To be called when everything has arrived. */
export function recorded(chromium: Chromium): Promise<Recorded> {
  return chromium.until(`(${noted})()`);
}

function note(): void {
  const notes = { begun: 0, ended: 0, uploads: [] as object[] };
  Object.assign(globalThis, { notes });
  addEventListener("submit", () => (notes.begun = performance.now()), { capture: true });
  new MutationObserver(() => {
    if (notes.begun && !notes.ended && document.querySelector(".done .status")) notes.ended = performance.now();
  }).observe(document, { childList: true, subtree: true });
  const send = XMLHttpRequest.prototype.send;
  XMLHttpRequest.prototype.send = function (body) {
    const bytes = body instanceof Blob ? body.size : body instanceof ArrayBuffer ? body.byteLength : 0;
    const upload = { bytes, begun: performance.now(), uploaded: 0, answered: 0 };
    this.upload.addEventListener("load", () => (upload.uploaded = performance.now()));
    this.addEventListener("loadend", () => (upload.answered = performance.now()));
    notes.uploads.push(upload);
    send.call(this, body);
  };
}

function noted(): Recorded {
  const { notes } = globalThis as unknown as { notes: { begun: number; ended: number; uploads: Recorded["uploads"] } };
  const since = (at: number) => Math.round(at - notes.begun);
  return {
    seconds: (notes.ended - notes.begun) / 1000,
    uploads: notes.uploads.map(({ bytes, begun, uploaded, answered }) => ({
      bytes, begun: since(begun), uploaded: since(uploaded), answered: since(answered),
    })),
    calls: (performance.getEntriesByType("resource") as PerformanceResourceTiming[])
      .filter(({ name, startTime }) => startTime >= notes.begun && !name.includes("/bytes/"))
      .map(({ name, startTime, responseEnd }) => ({ name: new URL(name).pathname, begun: since(startTime), answered: since(responseEnd) })),
  };
}
