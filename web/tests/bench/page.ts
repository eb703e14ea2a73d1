// Measures how fast the page sends: `npx tsx tests/bench/page.ts PATH [SWITCHES] [DEPOT-PAGE]`.
// Without a depot's sign-in address it sends to a server that discards (switches: `nocompare=1` or `nohash=1`).
import { FakeDepot } from "../fake/depot";
import { openBrowser } from "../e2e/browser";
import { arrived, signIn, startSending } from "../e2e/steps";

const [path, switches = "nocompare=1", page] = process.argv.slice(2);
if (!path) throw new Error("usage: tsx tests/bench/page.ts PATH [SWITCHES] [DEPOT-PAGE]");
const discarding = page ? null : await FakeDepot.start();
if (discarding) discarding.discard = true;
const address = new URL(page ?? discarding!.page);
address.search = switches;
const browser = await openBrowser();
await signIn(browser.page, { page: address.href });
const dropped = performance.now();
await startSending(browser.page, [path]);
const started = performance.now();
await arrived(browser.page, 600_000);
const seconds = (performance.now() - started) / 1000;
const size = await browser.page.locator(".done .quiet").first().textContent();
console.log(JSON.stringify({ switches, size, choosing_seconds: +((started - dropped) / 1000).toFixed(2), seconds: +seconds.toFixed(2) }));
await browser.close();
discarding?.close();
