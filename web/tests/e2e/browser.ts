/** Debian's Chromium, driven by Playwright. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type BrowserContext, type BrowserContextOptions, type Page, chromium } from "playwright-core";

export const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

export const EXECUTABLE = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

export interface Session {
  readonly context: BrowserContext;
  readonly page: Page;
  /** What the page complained about: nothing, in a test that passes. */
  readonly complaints: string[];
  close(): Promise<void>;
}

/** A browser with a profile of its own, so that killing it kills nothing else. */
export async function openBrowser(options: BrowserContextOptions = {}): Promise<Session> {
  const profile = await mkdtemp(join(tmpdir(), "terahaul-profile-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: EXECUTABLE, args: ARGUMENTS, headless: true, acceptDownloads: true, ignoreHTTPSErrors: true, ...options,
  });
  // The test runner's compiler wraps named functions in this, also those that are sent to the page.
  await context.addInitScript({ content: "globalThis.__name = (made) => made" });
  if (process.env["PAGE"] === "dist") await serveFromDist(context);
  const page = context.pages()[0] ?? (await context.newPage());
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
      await rm(profile, { recursive: true, force: true });
    },
  };
}

/** Takes the page from `dist/` instead of from the depot, which has the one it was compiled with. */
async function serveFromDist(context: BrowserContext): Promise<void> {
  const dist = fileURLToPath(new URL("../../dist/", import.meta.url));
  await context.route(
    ({ pathname }) => pathname === "/" || /^\/(t|assets)\//.test(pathname),
    (route) => {
      const { pathname } = new URL(route.request().url());
      return route.fulfill({ path: join(dist, pathname.startsWith("/assets/") ? pathname : "index.html") });
    },
  );
}

/** Drops files and folders of this machine on the page, as a person's mouse would. */
export async function drop(page: Page, files: string[]): Promise<void> {
  const zone = await page.locator(".drop").boundingBox();
  if (!zone) throw new Error("there is nowhere to drop");
  const devtools = await page.context().newCDPSession(page);
  const at = { x: zone.x + zone.width / 2, y: zone.y + zone.height / 2 };
  const data = { items: [], files, dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"] as const) {
    await devtools.send("Input.dispatchDragEvent", { type, ...at, data });
  }
  await devtools.detach();
}
