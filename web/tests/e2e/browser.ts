/** Debian's Chromium, driven by Playwright. */
import { join } from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { type Browser, type BrowserContext, type BrowserContextOptions, type Page, chromium } from "playwright-core";
import { ARGUMENTS, EXECUTABLE } from "../chromium";
import { POLICY } from "../fake/depot";

declare global {
  interface Window {
    sentBytes?: number;
  }
}

export interface Session {
  readonly context: BrowserContext;
  readonly page: Page;
  /** What the page complained about: nothing, in a test that passes. */
  readonly complaints: string[];
  close(): Promise<void>;
}

interface Options extends BrowserContextOptions {
  /** Requests carry what the page gives them: see `nameBodies`. */
  bodiesAsTheyAre?: boolean;
  /** Pixels, as the browser is set: 16 where nobody has. */
  textSize?: number;
  /** As where its settings forbid it. */
  webAssembly?: boolean;
}

const launch = (args: readonly string[]) => chromium.launch({ executablePath: EXECUTABLE, args: [...ARGUMENTS, ...args], headless: true });

/** Started once for all tests of a file: that takes half a second each time. */
let shared: Promise<Browser> | null = null;
after(async () => (await shared)?.close());

/** A browser of somebody's own, for all that a page can see. */
export async function openBrowser({ bodiesAsTheyAre = false, textSize = 16, webAssembly = true, ...options }: Options = {}): Promise<Session> {
  const set = [...(textSize === 16 ? [] : [`--blink-settings=defaultFontSize=${textSize}`]), ...(webAssembly ? [] : ["--js-flags=--jitless"])];
  const own = set.length === 0 ? null : await launch(set);
  const browser = own ?? (await (shared ??= launch([])));
  const context = await browser.newContext({ acceptDownloads: true, ignoreHTTPSErrors: true, ...options });
  // The test runner's compiler wraps named functions in this, also those that are sent to the page.
  await context.addInitScript({ content: "globalThis.__name = (made) => made" });
  if (!bodiesAsTheyAre) await context.addInitScript(nameBodies);
  if (process.env["PAGE"] === "dist") await serveFromDist(context);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => {
    // A refused request is reported by the page itself, in words.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) complaints.push(message.text());
  });
  return {
    context,
    page,
    complaints,
    close: async () => {
      await context.close();
      await own?.close();
    },
  };
}

/** Sends bytes as a `Blob`, and counts them. A debugger is shown every byte that a page sends from memory, in base64 and
 * through three processes, which takes ten times as long as sending it; of a `Blob` it is told that there is one. */
function nameBodies(): void {
  const send = XMLHttpRequest.prototype.send;
  XMLHttpRequest.prototype.send = function (body) {
    if (!(body instanceof ArrayBuffer)) return send.call(this, body);
    window.sentBytes = (window.sentBytes ?? 0) + body.byteLength;
    send.call(this, new Blob([body]));
  };
}

/** Bytes that `page` has handed to its requests since it was loaded. */
export function sentBytes(page: Page): Promise<number> {
  return page.evaluate(() => window.sentBytes ?? 0);
}

/** Takes the page from `dist/` instead of from the depot, which has the one it was compiled with. The depot's policy holds all the same. */
async function serveFromDist(context: BrowserContext): Promise<void> {
  const dist = fileURLToPath(new URL("../../dist/", import.meta.url));
  await context.route(
    ({ pathname }) => pathname === "/" || /^\/(t|assets)\//.test(pathname),
    (route) => {
      const { pathname } = new URL(route.request().url());
      return route.fulfill({ headers: { "Content-Security-Policy": POLICY }, path: join(dist, pathname.startsWith("/assets/") ? pathname : "index.html") });
    },
  );
}

/** Drops files and folders of this machine on the page, as a person's mouse would, or data of another type. */
export async function drop(page: Page, files: string[], others: { mimeType: string; data: string }[] = []): Promise<void> {
  const zone = await page.locator(".drop").boundingBox();
  if (!zone) throw new Error("there is nowhere to drop");
  const devtools = await page.context().newCDPSession(page);
  const at = { x: zone.x + zone.width / 2, y: zone.y + zone.height / 2 };
  const data = { items: others, files, dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"] as const) {
    await devtools.send("Input.dispatchDragEvent", { type, ...at, data });
  }
  await devtools.detach();
}
