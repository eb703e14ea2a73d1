// What whoever opens a link before the sender has finished sees, by and by.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Page } from "playwright-core";
import { openBrowser } from "./browser";
import { startDepot } from "./depot";
import { atEnd, content, listing, scratch, write } from "./files";
import { depotInMemory } from "./in_memory";
import { Line } from "./line";
import { answerFolderPicker, arrived, savedListing, sendPart, signIn } from "./steps";

/** Longer than a page waits before it asks again. */
const A_WHILE = 31_000;
const WAITS = "The sender has not finished yet.";
const FINISHED = "The sender has finished: all of it is here now.";

/** A sender who is half through, and a recipient who looks at it. */
async function setUpHalf(t: TestContext) {
  const folder = await scratch(t);
  const depot = await startDepot(join(folder, "depot"));
  const line = await Line.to(depot, 10e9);
  const [sender, recipient] = [await openBrowser(), await openBrowser()];
  atEnd(t, async () => {
    await Promise.all([sender.close(), recipient.close()]);
    line.close();
    await depot.stop();
  });
  const source = join(folder, "source");
  await write(source, { "set/large.raw": 60_000_000, "set/small/one": 1000, "set/small/two": 2000 });
  await signIn(sender.page, { page: line.over(depot.page) });
  await sendPart(sender.page, line, 30e6, [join(source, "set")]);
  /** What the sender does elsewhere. */
  const call = (path: string, method = "GET") => fetch(`${depot.url}/api/v1/${path}`, { method, headers: { Authorization: `Bearer ${depot.token}` } });
  const { transfers: [transfer] } = (await (await call("transfers")).json()) as { transfers: [{ id: string; link: string }] };
  await answerFolderPicker(recipient.page);
  await recipient.page.clock.install();
  await recipient.page.goto(transfer.link);
  await recipient.page.getByText(WAITS).waitFor();
  await recipient.page.getByRole("heading", { name: "3 files" }).waitFor();
  return { line, source, sender, recipient, remove: () => call(`transfers/${transfer.id}`, "DELETE") };
}

/** What is said of it in the page's own region for that. */
const said = (page: Page) => page.locator(".notice [role=status]");

test("an open page shows the whole transfer when the sender has finished, and it can be had", async (t) => {
  const { line, source, sender, recipient } = await setUpHalf(t);
  const { page } = recipient;
  assert.equal(await page.getByRole("link", { name: "Download all as zip" }).count(), 0);
  await page.getByRole("row", { name: /large.raw/ }).click();
  assert.equal(await page.getByRole("link", { name: /Download/ }).count(), 0, "the depot gives nothing out yet");
  const region = await said(page).elementHandle();
  await page.screenshot({ path: "test-results/waiting/open.png" });
  line.mend();
  await arrived(sender.page);
  await page.clock.fastForward(A_WHILE);
  await page.getByText(FINISHED).waitFor();
  assert.equal(await region?.textContent(), FINISHED, "the region that was there changes, so that it is read out");
  await page.getByRole("row", { name: /large.raw.*60.0 MB/, selected: true }).waitFor();
  await page.screenshot({ path: "test-results/waiting/finished.png" });

  const begun = page.waitForEvent("download");
  await page.getByLabel("Details").getByRole("link", { name: "Download" }).click();
  assert.deepEqual(await readFile(await (await begun).path()), content("set/large.raw", 60_000_000));
  await page.getByRole("link", { name: "Receipt" }).waitFor();
  await page.getByRole("button", { name: "Save into a folder" }).click();
  await page.getByText("3 files received and verified").waitFor();
  assert.deepEqual(await savedListing(page), await listing(source));
  assert.deepEqual([sender.complaints, recipient.complaints], [[], []]);
});

test("an open page says when the sender removes the transfer, and offers nothing of it any more", async (t) => {
  const { recipient, remove } = await setUpHalf(t);
  const { page } = recipient;
  await page.getByRole("row", { name: /large.raw/ }).click();
  assert.equal((await remove()).status, 204);
  await page.clock.fastForward(A_WHILE);
  await page.getByRole("alert").getByText("This transfer is no longer here: it was deleted, or it expired.").waitFor();
  await page.screenshot({ path: "test-results/waiting/removed.png" });
  assert.equal(await page.getByText(WAITS).count(), 0);
  assert.equal(await page.locator("main").getByRole("link").count(), 0);
  await page.getByRole("heading", { name: "set", exact: true }).waitFor();
  assert.deepEqual(recipient.complaints, []);
});

const FILE = { kind: "file", mtime: 0, mtime_nanos: 0, mode: 0o644, address: null, state: "pending" } as const;

/** A transfer in a depot in memory that nobody sends, at which a recipient looks. */
async function setUpOpen(t: TestContext, ...paths: string[]) {
  const { depot, page, complaints } = await depotInMemory(t);
  const transfer = depot.create("set", 7);
  const add = (path: string, size = 10) => transfer.entries.push({ ...FILE, entry: transfer.entries.length, path, size });
  for (const path of paths) add(path);
  const asked: string[] = [];
  page.on("request", (request) => request.url().endsWith("/open") && asked.push(request.url()));
  await page.clock.install();
  await page.goto(`${depot.url}/t/${transfer.id}#${transfer.secret}`);
  await page.getByText(WAITS).waitFor();
  await page.getByRole("heading", { name: `${paths.length} file` }).waitFor();
  const finish = (state: "complete" | "partial") => {
    for (const entry of transfer.entries) if (entry.state === "pending") entry.state = "complete";
    Object.assign(transfer, { state, completed: 1_800_000_000 });
  };
  return { depot, transfer, page, complaints, asked, add, finish };
}

/** Hides the tab, or shows it again. */
function become(page: Page, hidden: boolean): Promise<void> {
  return page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);
}

test("nothing is asked while the tab is hidden, at once when it is shown, and never again when all is here", async (t) => {
  const { page, asked, finish } = await setUpOpen(t, "a");
  await become(page, true);
  asked.length = 0;
  finish("complete");
  await page.clock.fastForward(3_600_000);
  // From there on it stands: nothing comes of waiting.
  await page.clock.pauseAt(Date.now() + 2 * 3_600_000);
  assert.deepEqual(asked, []);
  await become(page, false);
  await page.getByText(FINISHED).waitFor();
  await page.clock.resume();
  await page.getByRole("button", { name: "Save into a folder" }).and(page.locator(":enabled")).waitFor();
  await become(page, false);
  await page.clock.fastForward(3_600_000);
  await page.reload();
  await page.getByRole("link", { name: "Download all as zip" }).waitFor();
  await page.clock.fastForward(3_600_000);
  assert.equal(await page.getByText(FINISHED).count(), 0, "it is no news to whoever comes now");
  assert.equal(asked.length, 2, "once when the tab was shown, and once by the reload");
});

test("what is chosen or folded stays so when the rest comes, what failed goes from the list, and it is said", async (t) => {
  const { page, transfer, complaints, add, finish } = await setUpOpen(t, "set/m/1", "set/m/2", "set/m/3", "set/z/1", "set/lost");
  const row = (name: string) => page.getByRole("row", { name, exact: false });
  await row("m 3 files").click();
  await row("2 10 B").click();
  const list = page.getByRole("treegrid");
  await list.focus();
  for (const path of ["set/a/1", "set/m/0", "set/m/10"]) add(path);
  Object.assign(transfer.entries[4]!, { state: "failed", reason: "It is gone." });
  Object.assign(transfer.entries[1]!, { state: "failed", superseded: true });
  add("set/m/2", 4000);
  finish("partial");
  await page.clock.fastForward(A_WHILE);
  await said(page).getByText("The sender has finished, but not all of it arrived.").waitFor();
  await page.getByRole("heading", { name: "7 files" }).waitFor();
  await page.locator(".notice", { hasText: "1 file did not arrive:" }).getByText("set/lost: It is gone.").waitFor();
  const shown = () => page.locator(".row .text").allInnerTexts();
  assert.deepEqual(await shown(), ["set", "a", "m", "0", "1", "2", "3", "10", "z"]);
  await page.getByRole("row", { name: "2 4.00 kB", selected: true }).waitFor();
  await page.getByLabel("Details").getByRole("heading", { name: "set/m/2" }).waitFor();
  assert.equal(await list.evaluate((element) => element === document.activeElement), true);
  assert.deepEqual(complaints, []);
});

test("the row that keys are at stays where it is when others come before it", async (t) => {
  const { page, add, finish } = await setUpOpen(t, "m", "n", "z");
  await page.getByRole("row", { name: "m" }).click();
  add("a");
  add("b");
  finish("complete");
  await page.clock.fastForward(A_WHILE);
  await page.getByRole("heading", { name: "5 files" }).waitFor();
  await page.getByRole("treegrid").press("ArrowDown");
  await page.getByLabel("Details").getByRole("heading", { name: "n", exact: true }).waitFor();
});

test("a connection that is lost while the page waits is said, and it goes on when the network is back", async (t) => {
  const { page, finish } = await setUpOpen(t, "a");
  await page.route(/\/open$/, (route) => route.abort());
  // From there on it stands: nothing comes of waiting.
  await page.clock.pauseAt(Date.now() + A_WHILE);
  await page.getByText("Connection lost. Trying again…").waitFor();
  finish("complete");
  await page.unroute(/\/open$/);
  await page.evaluate(() => dispatchEvent(new Event("online")));
  await page.getByText(FINISHED).waitFor();
  assert.equal(await page.getByText("Connection lost").count(), 0);
});
