// What is dragged over the place for files, and what is said of what was chosen.
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { drop } from "./browser";
import { scratch, write } from "./files";
import { depotInMemory } from "./in_memory";
import { signIn } from "./steps";

declare global {
  interface Window {
    seen?: string[];
  }
}

async function setUp(t: TestContext) {
  const folder = await scratch(t);
  const { depot, page } = await depotInMemory(t);
  await write(folder, { "set/one": 10, "set/two": 10 });
  await mkdir(join(folder, "empty"));
  await signIn(page, depot);
  // In their order: what is announced, and when the place for files is lit up.
  await page.evaluate(() => {
    const seen: string[] = [];
    const zone = document.querySelector(".drop")!;
    const announcer = document.getElementById("announcer")!;
    new MutationObserver(() => zone.classList.contains("over") && seen.push("lit up")).observe(zone, { attributeFilter: ["class"] });
    new MutationObserver(() => announcer.textContent && seen.push(announcer.textContent)).observe(announcer, { childList: true });
    Object.assign(window, { seen });
  });
  return { depot, page, folder, seen: () => page.evaluate(() => window.seen) };
}

test("text, a link, or nothing at all is not for sending: the place for files does not light up, and nothing is said", async (t) => {
  const { page, folder, seen } = await setUp(t);
  const { pathname } = new URL(page.url());
  await drop(page, [], [{ mimeType: "text/plain", data: "words" }]);
  await drop(page, [], [{ mimeType: "text/uri-list", data: new URL("/t/elsewhere", page.url()).href }]);
  await drop(page, []);
  await drop(page, [join(folder, "set")]);
  await page.getByRole("heading", { name: "2 files" }).waitFor();
  assert.equal(new URL(page.url()).pathname, pathname);
  assert.deepEqual(await seen(), ["lit up", "2 files chosen"]);
});

test("what is announced is what was chosen, and not all that is there by then", async (t) => {
  const { page, folder, seen } = await setUp(t);
  for (const [dropped, shown] of [["empty", "empty"], ["set", "set"], ["set/one", "one"]] as const) {
    await drop(page, [join(folder, dropped)]);
    await page.getByRole("row", { name: shown }).first().waitFor();
  }
  await page.getByRole("heading", { name: "3 files" }).waitFor();
  assert.deepEqual((await seen())!.filter((one) => one !== "lit up"), ["1 folder chosen", "2 files chosen", "1 file chosen"]);
});
