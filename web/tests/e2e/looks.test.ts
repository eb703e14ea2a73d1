// The page where it does not look as it was drawn: deep trees on a telephone, the system's own colours, words of another language.
import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { FakeDepot } from "../fake/depot";
import { openBrowser } from "./browser";
import { atEnd, scratch, write } from "./files";
import { Line } from "./line";
import { sendPart, signIn } from "./steps";

const DEPTH = 30;

async function setUp(t: TestContext, options: Parameters<typeof openBrowser>[0]) {
  const folder = await scratch(t);
  const depot = await FakeDepot.start();
  const line = await Line.to({ url: depot.url, page: depot.page, token: depot.token, real: false, stop: async () => {} }, 80e6);
  const { page, close } = await openBrowser(options);
  atEnd(t, async () => {
    await close();
    line.close();
    depot.close();
  });
  await signIn(page, { page: line.over(depot.page) });
  return { depot, line, page, folder };
}

test("names far down in a tree can be read, on a telephone, too", async (t) => {
  const { page, folder } = await setUp(t, { viewport: { width: 360, height: 740 } });
  const path = Array.from({ length: DEPTH }, (_, at) => `folder ${at}`).join("/");
  await write(folder, { [`${path}/at the bottom.txt`]: 10 });
  await page.locator("input[data-pick=folder]").setInputFiles(join(folder, "folder 0"));
  await page.getByRole("treegrid").focus();
  for (let at = 0; at < 2 * DEPTH; at++) await page.keyboard.press("ArrowRight");
  const name = page.getByRole("row", { name: "at the bottom.txt" }).locator(".text");
  await name.waitFor({ state: "attached" });
  const width = (await name.boundingBox())!.width;
  assert.ok(width >= 64, `${width} pixels`);
});

test("a long name without a space takes no more than the width that there is", async (t) => {
  const { depot, line, page, folder } = await setUp(t, { viewport: { width: 360, height: 740 } });
  const name = "x_".repeat(100);
  const study = depot.create(name, 7, name);
  const fits = async (shown: string) => {
    await page.getByText(name).first().waitFor();
    const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(beyond <= 0, `${shown}: ${beyond} pixels too wide`);
  };
  await page.getByRole("link", { name: "Transfers" }).click();
  await page.getByText("from x_").waitFor();
  await fits("the list of transfers");
  await page.goto(`${page.url().replace(/#.*/, "")}#/resume/${study.id}`);
  await page.getByText("are safe in the depot").waitFor();
  await fits("going on with it");
  await page.getByRole("link", { name: "Send", exact: true }).click();
  await write(folder, { "set/a.raw": 40_000_000 });
  await sendPart(page, line, 20e6, [join(folder, "set")], name);
  await fits("sending");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("dialog").waitFor();
  await fits("signing out");
});

test("spaces at the ends of names, and between, are seen in lists", async (t) => {
  const { line, page, folder } = await setUp(t, {});
  await write(folder, { " set/  lead": 40_000_000, " set/trail ": 10, " set/two  within": 10 });
  const names = () => page.locator(".row .text").evaluateAll((names) => names.map((name) => (name as HTMLElement).innerText));
  await page.locator("input[data-pick=folder]").setInputFiles(join(folder, " set"));
  await page.getByRole("treegrid").waitFor();
  assert.deepEqual(await names(), [" set", "  lead", "trail ", "two  within"]);
  await sendPart(page, line, 20e6, []);
  assert.deepEqual(await names(), ["  lead", "trail ", "two  within"]);
  const folders = await page.locator(".row .folder").evaluateAll((names) => names.map((name) => (name as HTMLElement).innerText));
  assert.deepEqual(folders, [" set", " set", " set"]);
});

test("in the system's own colours progress is seen, and the row that keys are at", async (t) => {
  const { line, page, folder } = await setUp(t, { forcedColors: "active" });
  await write(folder, { "set/a.raw": 40_000_000, "set/b.raw": 1000 });
  await page.locator("input[data-pick=folder]").setInputFiles(join(folder, "set"));
  await page.getByRole("treegrid").focus();
  const outlines = () => page.locator(".row").evaluateAll((rows) => rows.map((row) => getComputedStyle(row).outlineStyle));
  assert.deepEqual(await outlines(), ["solid", "none", "none"]);
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction(() => document.querySelectorAll(".row")[1]?.classList.contains("active"));
  assert.deepEqual(await outlines(), ["none", "solid", "none"]);
  await sendPart(page, line, 20e6, []);
  const colour = (selector: string) => page.locator(selector).first().evaluate((element) => getComputedStyle(element).backgroundColor);
  assert.notEqual(await colour(".bar > div"), await colour(".bar"));
});

/** Does to the page what a browser's translation does: in place of each text comes an element of its own, with another. */
function translate(): void {
  const isFor = (element: Element | null) => !element?.closest("[translate=no], font, script, style");
  const translateIn = (root: Node) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    const texts: Text[] = [];
    while (walker.nextNode()) texts.push(walker.currentNode as Text);
    for (const text of texts) {
      if (!/\p{L}/u.test(text.data) || !isFor(text.parentElement)) continue;
      const font = document.createElement("font");
      font.textContent = `¡${text.data}!`;
      text.replaceWith(font);
    }
  };
  const handleChanges = (changes: MutationRecord[]) => {
    for (const { addedNodes, target } of changes) if (addedNodes.length > 0) translateIn(target);
  };
  addEventListener("DOMContentLoaded", () => new MutationObserver(handleChanges).observe(document.body, { childList: true, subtree: true }));
}

test("of a page that a browser translates the words change as they should, and names stay what they are", async (t) => {
  const { line, page, folder } = await setUp(t, {});
  await page.addInitScript(translate);
  await page.reload();
  await page.getByText("¡Drop files or whole folders here!").waitFor();
  await write(folder, { "set/notes of the day.txt": 40_000_000, "set/other": 1000 });
  const pick = page.locator("input[data-pick=files]");
  await pick.setInputFiles(join(folder, "set/other"));
  await page.getByText("¡Send 1 file, 1.00 kB!").waitFor();
  await pick.setInputFiles(join(folder, "set/notes of the day.txt"));
  const send = page.getByText("¡Send 2 files, 40.0 MB!");
  await send.waitFor();
  assert.deepEqual(await page.locator(".row .text").allTextContents(), ["notes of the day.txt", "other"]);
  const reached = line.hold(20e6);
  await send.click();
  await reached;
  await page.waitForFunction(() => Number(document.querySelector(".share span")?.textContent) >= 5);
  assert.match((await page.locator("dd").first().textContent())!, /^[1-9][\d.]+ MB of 40.0 MB$/);
  await page.getByRole("button", { name: "¡Pause!" }).click();
  await page.getByText("¡Paused!").waitFor();
  await page.getByRole("button", { name: "¡Continue!" }).click();
  await page.getByText("¡Sending!").waitFor();
  line.cut();
  await page.getByText("¡Connection lost. Trying again…!").waitFor();
});
