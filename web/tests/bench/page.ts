// Measures how fast the page sends: `npx tsx tests/bench/page.ts PATH [SWITCHES] [DEPOT-PAGE]`.
// DEPOT-PAGE is a depot's sign-in address, or the file (with a `/` in its name) that `terahaul serve --json` writes into,
// which may be about to. Without it the page sends to a server that discards (switches: `nocompare=1` or `nohash=1`).
// With TIMELINE=FILE, when each request began and ended is written there.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { FakeDepot } from "../fake/depot";
import { Chromium } from "./devtools";
import { record, recorded } from "./recorder";

const [path, switches = "nocompare=1", depot] = process.argv.slice(2);
if (!path) throw new Error("usage: tsx tests/bench/page.ts PATH [SWITCHES] [DEPOT-PAGE]");
const page = depot?.startsWith("https:") || depot?.startsWith("http:") ? depot : depot && (await announced(depot));
const discarding = page ? null : await FakeDepot.start();
if (discarding) discarding.discard = true;
const address = new URL(page ?? discarding!.page);
address.search = switches;
const chromium = await Chromium.start();
await record(chromium);
if (process.env["PAGE"] === "dist") await chromium.serveFromDist();
await chromium.open(address.href);
await chromium.until('document.querySelector(".drop")');
if (process.env["PAGE"] === "dist") await chromium.leaveAlone();
const dropped = performance.now();
await chromium.drop([path], ".drop");
await chromium.until("globalThis.send = [...document.querySelectorAll('button')].find(({ innerText }) => /^Send [\\d,]+ file/.test(innerText))");
const started = performance.now();
// Nobody presses Send sooner, and the page opens its connections meanwhile.
await wait(1000);
await chromium.until("(send.click(), true)");
const status = await chromium.until<string>('document.querySelector(".done .status, [role=alert]")?.innerText', 600_000);
if (!/Sent, stored and verified/.test(status)) throw new Error(`not everything arrived; the page says: ${status}`);
const { seconds, ...requests } = await recorded(chromium);
const size = await chromium.until('document.querySelector(".done .quiet").textContent');
if (process.env["TIMELINE"]) writeFileSync(process.env["TIMELINE"], JSON.stringify({ seconds, ...requests }, null, 1));
console.log(JSON.stringify({ switches, size, choosing_seconds: +((started - dropped) / 1000).toFixed(2), seconds: +seconds.toFixed(2) }));
await chromium.close();
discarding?.close();

/** The sign-in address that a depot has written into `file`, once it has. */
async function announced(file: string): Promise<string> {
  for (let tries = 0; tries < 200; tries++) {
    const [line, rest] = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
    if (line && rest !== undefined) return JSON.parse(line).page;
    await wait(50);
  }
  throw new Error(`the depot said nothing in ${file} for ten seconds`);
}
