// Links to downloads, for which the browser asks by itself: with a cookie that has ended, and where there is nothing any more.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { type TestContext, test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { depotInMemory } from "./in_memory";
import { signIn } from "./steps";

const CONTENT = "ten bytes.";
const FILE = { kind: "file", size: CONTENT.length, mtime: 0, mtime_nanos: 0, mode: 0o644, state: "complete", address: 0 } as const;

/** A depot with a finished transfer of one file, and what a browser downloads and asks for. */
async function setUp(t: TestContext) {
  const { depot, context, page, complaints } = await depotInMemory(t);
  const transfer = depot.create("study", 7);
  transfer.entries.push({ ...FILE, entry: 0, path: "notes.txt" });
  transfer.blocks.set(0, Buffer.from(CONTENT));
  Object.assign(transfer, { state: "complete", completed: transfer.created });
  const downloads: string[] = [];
  const asked: string[] = [];
  context.on("page", (other) => assert.equal(other, page, "nothing opens another tab"));
  page.on("download", (download) => downloads.push(download.suggestedFilename()));
  page.on("request", (request) => asked.push(new URL(request.url()).pathname.replace(transfer.id, "ID")));
  /** Opens the link. */
  const open = async () => {
    await page.goto(`${depot.url}/t/${transfer.id}#${transfer.secret}`);
    await page.getByRole("button", { name: "Save into a folder" }).and(page.locator(":enabled")).waitFor();
    asked.length = 0;
    page.on("framenavigated", () => assert.fail("the document stays"));
  };
  return { depot, transfer, context, page, complaints, downloads, asked, open };
}

/** What is said at the top of the page is out of sight from its end. */
const LOW = { width: 800, height: 320 };

/** Waits until `element` is seen whole: it is scrolled to after it is there. */
async function isInView(element: Locator): Promise<void> {
  const handle = await element.elementHandle();
  await element.page().waitForFunction((element) => {
    const { top, bottom } = element!.getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
  }, handle);
}

/** The name and text of the download that `action` begins. */
async function downloaded(page: Page, action: () => Promise<void>): Promise<[string, string]> {
  const begun = page.waitForEvent("download");
  await action();
  const download = await begun;
  return [download.suggestedFilename(), await readFile(await download.path(), "utf8")];
}

const links = (page: Page) => ({
  inRow: page.getByRole("row", { name: /notes.txt/ }).getByRole("link"),
  inDetails: page.getByLabel("Details").getByRole("link", { name: "Download" }),
  receipt: page.getByRole("link", { name: "Receipt" }),
  zip: page.getByRole("link", { name: "Download all as zip" }),
});

test("a download whose cookie has ended comes all the same, by mouse and by keys, without another tab", async (t) => {
  const { context, page, complaints, asked, open } = await setUp(t);
  await open();
  const { inRow, inDetails, receipt } = links(page);
  await context.clearCookies();
  assert.deepEqual(await downloaded(page, () => inRow.click()), ["notes.txt", CONTENT]);
  assert.deepEqual(asked.slice(0, 3), ["/api/v1/transfers/ID", "/api/v1/links/ID/open", "/api/v1/transfers/ID"]);
  assert.equal(await page.getByLabel("Details").count(), 0, "the row itself was not clicked");

  await page.getByRole("row", { name: /notes.txt/ }).click();
  await context.clearCookies();
  await inDetails.focus();
  assert.deepEqual(await downloaded(page, () => page.keyboard.press("Enter")), ["notes.txt", CONTENT]);

  await context.clearCookies();
  const [name, text] = await downloaded(page, () => receipt.click());
  assert.equal(name, "study.receipt.json");
  assert.match(text, /"statement"/);
  assert.equal(await page.getByRole("alert").count(), 0);
  assert.deepEqual(complaints, []);
});

test("a link to a download can be copied: it leads to what it gives", async (t) => {
  const { transfer, page, open } = await setUp(t);
  await open();
  await page.getByRole("row", { name: /notes.txt/ }).click();
  const { inRow, inDetails, receipt, zip } = links(page);
  const of = `/api/v1/transfers/${transfer.id}`;
  const addresses = await Promise.all([inRow, inDetails, receipt, zip].map((link) => link.getAttribute("href")));
  assert.deepEqual(addresses, [`${of}/files/0`, `${of}/files/0`, `${of}/receipt`, `${of}/zip`]);
});

test("of what was deleted no download is begun: it is said, and nothing of it offered any more", async (t) => {
  const { depot, transfer, context, page, complaints, downloads, asked, open } = await setUp(t);
  await page.setViewportSize(LOW);
  await open();
  await page.getByRole("row", { name: /notes.txt/ }).click();
  await context.clearCookies();
  depot.transfers.delete(transfer.id);
  await links(page).inDetails.click();
  const said = page.getByRole("alert").getByText("This transfer is no longer here: it was deleted, or it expired.");
  await said.waitFor();
  await isInView(said);
  await page.screenshot({ path: "test-results/downloads/deleted.png" });
  assert.equal(await page.locator("main").getByRole("link").count(), 0);
  assert.deepEqual([downloads, asked.filter((path) => /zip|files|receipt/.test(path))], [[], []]);
  assert.deepEqual(complaints, []);
});

test("a depot that cannot be reached is said instead of a failed download, until one is begun", async (t) => {
  const { page, downloads, open } = await setUp(t);
  await page.setViewportSize(LOW);
  await open();
  await page.getByRole("row", { name: /notes.txt/ }).click();
  const { zip, receipt, inDetails } = links(page);
  await page.route(/\/transfers\/[0-9a-f]+$/, (route) => route.abort());
  await inDetails.click();
  const said = page.getByRole("alert").getByText("The depot cannot be reached.");
  await said.waitFor();
  await isInView(said);
  assert.deepEqual(downloads, []);
  await page.unroute(/\/transfers\/[0-9a-f]+$/);
  await downloaded(page, () => receipt.click());
  assert.equal(await page.getByRole("alert").count(), 0);
  assert.equal(await zip.count(), 1);
});

test("of what its sender is adding to no download is begun until that is finished", async (t) => {
  const { transfer, page, downloads, open } = await setUp(t);
  await open();
  const { zip, inRow } = links(page);
  transfer.state = "open";
  const alert = page.getByRole("alert");
  for (const link of [zip, inRow]) {
    await link.click();
    await alert.getByText("It is being sent just now: download it when the sender has finished.").waitFor();
  }
  assert.deepEqual(downloads, []);
  transfer.state = "complete";
  assert.deepEqual(await downloaded(page, () => inRow.click()), ["notes.txt", CONTENT]);
  assert.equal(await alert.count(), 0);
  assert.equal(await page.getByText("If a download breaks off each time").count(), 0, "it was not begun before");
});

test("a browser that keeps no cookie is told so as it asks for a download", async (t) => {
  const { depot, context, page, downloads, open } = await setUp(t);
  await open();
  depot.givesCookies = false;
  await context.clearCookies();
  await links(page).zip.click();
  await page.getByRole("alert").getByText("This browser does not keep the depot's cookie").waitFor();
  assert.deepEqual(downloads, []);
});

test("the receipt of what was deleted elsewhere, or when the session has ended, is not a failed download", async (t) => {
  const { depot, transfer, page, complaints, downloads } = await setUp(t);
  await signIn(page, depot);
  await page.getByRole("link", { name: "Transfers" }).click();
  const { receipt } = links(page);
  assert.equal((await downloaded(page, () => receipt.click()))[0], "study.receipt.json");
  downloads.length = 0;
  depot.transfers.delete(transfer.id);
  await receipt.click();
  await page.locator(".transfer").getByRole("alert").getByText("The receipt cannot be downloaded: There is no such transfer.").waitFor();
  await page.screenshot({ path: "test-results/downloads/receipt.png" });
  depot.endSessions();
  await receipt.click();
  await page.getByText("Your session has ended, or its token was revoked. Sign in again.").waitFor();
  assert.deepEqual([downloads, complaints], [[], []]);
});

test("whoever asks for the same download again is told what to do if it breaks off each time", async (t) => {
  const { page, complaints, open } = await setUp(t);
  await open();
  const { inRow, receipt, zip } = links(page);
  const told = page.getByRole("status").getByText("something in it may be damaged in the depot: “Save into a folder” saves the rest, and names what is damaged.");
  for (let times = 0; times < 2; times++) await downloaded(page, () => receipt.click());
  await downloaded(page, () => inRow.click());
  assert.equal(await told.count(), 0);
  await downloaded(page, () => inRow.click());
  await told.waitFor();

  await page.addInitScript(() => Reflect.deleteProperty(window, "showDirectoryPicker"));
  page.removeAllListeners("framenavigated");
  await page.reload();
  await zip.waitFor();
  for (let times = 0; times < 2; times++) await downloaded(page, () => inRow.click());
  await page.getByRole("status").getByText("something in it may be damaged in the depot: ask the sender to send it again.").waitFor();
  assert.deepEqual(complaints, []);
});
