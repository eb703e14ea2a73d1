// Files that cannot be read any more while they are sent, and what the depot is told of them.
import assert from "node:assert/strict";
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Page } from "playwright-core";
import type { Entry, EntryPage, Extents, Transfer } from "../../src/api/types";
import { openBrowser } from "./browser";
import { startDepot } from "./depot";
import { atEnd, scratch, write } from "./files";
import { Line } from "./line";
import { arrived, isUnderWay, sendPart, signIn, startSending } from "./steps";

/** The small ones share a block, which comes last but for `z.raw`. */
const FILES = { "set/a.raw": 40_000_000, "set/m/one": 100_000, "set/m/two": 200_000, "set/z.raw": 40_000_000 };

async function setUp(t: TestContext, files: Record<string, number> = FILES) {
  const folder = await scratch(t);
  const depot = await startDepot(join(folder, "depot"));
  const line = await Line.to(depot, 60e6);
  const browser = await openBrowser();
  atEnd(t, async () => {
    await browser.close();
    line.close();
    await depot.stop();
  });
  await write(folder, files);
  // Few and small requests: most of the folder has not been read when the first of them are on their way.
  const at = new URL(line.over(depot.page));
  at.search = "?channels=3&chunk=4";
  await signIn(browser.page, { page: at.href });
  return { folder, depot, line, browser, page: browser.page, set: join(folder, "set") };
}

function ask<T>(page: Page, path: string): Promise<T> {
  return page.evaluate(async (path) => (await (await fetch(`/api/v1/transfers${path}`)).json()) as T, path);
}

/** Of no entry until the page has made a transfer. */
async function states(page: Page): Promise<Record<string, Entry["state"]>> {
  const [transfer] = (await ask<{ transfers: Transfer[] }>(page, "")).transfers;
  if (!transfer) return {};
  const { entries } = await ask<EntryPage>(page, `/${transfer.id}/entries?from=0&limit=100`);
  return Object.fromEntries(entries.map(({ path, state }) => [path, state]));
}

async function heldBlocks(page: Page): Promise<number> {
  const { id } = (await ask<{ transfers: Transfer[] }>(page, "")).transfers[0]!;
  const { received, durable } = await ask<Extents>(page, `/${id}/extents`);
  return new Set([...received, ...durable].flatMap(([first, count]) => Array.from({ length: count }, (_, at) => first + at))).size;
}

test("the depot never has zeros for a file that it was not told has failed, however the page ends", { timeout: 60_000 }, async (t) => {
  const { line, page, folder, set } = await setUp(t);
  // What tells the depot of failures does not get through, all else does.
  let told = 0;
  await page.route(/\/failures$/, (route) => (told++, route.abort("connectionreset")));
  await sendPart(page, line, 8e6, [set]);
  await rename(join(set, "m/one"), join(folder, "away"));
  line.mend();
  await page.locator(".notice", { hasText: "1 file could not be sent" }).waitFor();
  // All but the block that it is in, and one that goes with it.
  while ((await heldBlocks(page)) < 19) await page.waitForTimeout(50);
  await page.waitForFunction(() => document.querySelectorAll("dd")[3]?.textContent === "0");
  assert.ok(told > 0, "it is told at once");
  assert.equal((await states(page))["set/m/one"], "pending");
  await page.unroute(/\/failures$/);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Keep for later" }).click();
  await page.getByRole("heading", { name: "Transfers" }).waitFor();
  await page.waitForFunction(async () => {
    const all = (await (await fetch("/api/v1/transfers")).json()) as { transfers: { failed: number }[] };
    return all.transfers[0]?.failed === 1;
  });
});

test("a file that vanished does not take its neighbours with it, though the answer to their block was lost", { timeout: 60_000 }, async (t) => {
  const { page, folder, set } = await setUp(t, { "set/m/one": 100_000, "set/m/three": 300_000, "set/m/two": 200_000 });
  let lost = false;
  await page.route(/\/bytes\/0$/, async (route) => {
    if (lost) return route.continue();
    lost = true;
    await route.fetch();
    await rename(join(set, "m/one"), join(folder, "away"));
    return route.abort("connectionreset");
  });
  await page.route(/finish\?wait/, (route) => route.abort());
  await startSending(page, [set]);
  await arrived(page);
  const { "set/m/two": two, "set/m/three": three } = await states(page);
  assert.deepEqual([two, three], ["complete", "complete"]);
});

test("a drive that is away for a moment is waited for, and nothing is given up", { timeout: 60_000 }, async (t) => {
  const files: Record<string, number> = { "set/a.raw": 40_000_000 };
  for (let at = 0; at < 200; at++) files[`set/m/${at}`] = 50_000;
  const { line, page, folder, set } = await setUp(t, files);
  await sendPart(page, line, 8e6, [set]);
  await rename(set, join(folder, "away"));
  line.mend();
  await page.getByText("Waiting for this device to read").waitFor();
  await rename(join(folder, "away"), set);
  await arrived(page);
  await page.getByText("Sent, stored and verified").waitFor();
  assert.equal(await page.getByText("could not be sent").count(), 0);
});

test("a file that changed between two visits and is sent as it is now is not said to have failed", { timeout: 60_000 }, async (t) => {
  const { line, page, set } = await setUp(t);
  await sendPart(page, line, 8e6, [set]);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Keep for later" }).click();
  line.mend();
  await writeFile(join(set, "z.raw"), "what it is now");
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("heading", { name: "Resume sending" }).waitFor();
  await page.locator("input[data-pick=folder]").setInputFiles(set);
  const goingOn = line.hold(8e6);
  await page.getByRole("button", { name: /^Resume with/ }).click();
  await goingOn;
  await isUnderWay(page);
  await page.getByRole("heading", { name: "4 files" }).waitFor();
  assert.equal(await page.locator(".row.failed").count(), 0);
  line.mend();
  await arrived(page);
  await page.getByText("Sent, stored and verified").waitFor();
  assert.equal(await page.getByText("could not be sent").count(), 0);
});

test("a transfer of which nothing arrived is not said to be sent, and its file can be chosen again", { timeout: 60_000 }, async (t) => {
  const { page, folder, line } = await setUp(t, { "run.log": 1000 });
  await page.clock.install();
  await page.reload();
  const pick = page.locator("input[data-pick=files]");
  await pick.setInputFiles(join(folder, "run.log"));
  await page.getByRole("button", { name: /^Send 1 file/ }).waitFor();
  await writeFile(join(folder, "run.log"), "it has grown since");
  await page.getByRole("button", { name: /^Send 1 file/ }).click();
  await page.getByText("Waiting for this device to read run.log: if it was changed, cancel and choose it again").waitFor();
  // Nothing beside it says that the drive is there, so it is waited for.
  const over = page.locator(".done .status", { hasText: "Nothing was sent" });
  while (!(await over.isVisible())) await page.clock.runFor(1000);
  await page.waitForFunction(() => document.title.startsWith("Not sent · run.log"));
  assert.equal(await page.getByLabel("Anyone with this link can download it").count(), 0);
  const { transfers } = await ask<{ transfers: Transfer[] }>(page, "");
  const { id, link } = transfers[0]!;
  const { entries } = await ask<EntryPage>(page, `/${id}/entries?from=0&limit=100`);
  assert.match(entries[0]!.reason!, /^The browser cannot read the file any more/, "no advice to who runs a command");
  const guest = await page.context().newPage();
  await guest.goto(line.over(link!));
  await guest.locator(".notice", { hasText: "1 file did not arrive" }).waitFor();
  await guest.getByRole("heading", { name: "0 files" }).waitFor();
  assert.equal(await guest.getByRole("link", { name: "Download all as zip" }).count(), 0);
  await guest.close();

  await page.getByRole("button", { name: "Choose this file again" }).click();
  await page.getByText("0 B of 1.00 kB are safe in the depot").waitFor();
  await page.getByText("1 file did not arrive before").waitFor();
  await pick.setInputFiles(join(folder, "run.log"));
  await page.getByText("1 file did not arrive before").waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Resume with 1 file" }).click();
  await arrived(page);
  await page.getByText("Sent, stored and verified").waitFor();
});

test("a file that was lost is chosen again alone, as a picker gives it, and comes to where it was", { timeout: 60_000 }, async (t) => {
  const { depot, page, line, set } = await setUp(t, { "set/run.log": 1000 });
  const id = await page.evaluate(async () => {
    const call = async (path: string, body: object) => {
      const headers = { "Terahaul-Csrf": "1", "Content-Type": "application/json" };
      const answer = await fetch(`/api/v1/transfers${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      return (await answer.json().catch(() => null)) as { id: string };
    };
    const entry = (path: string, kind: string, size: number) => ({ path, kind, size, mtime: 1, mtime_nanos: 0, mode: 420 });
    const entries = [entry("set", "directory", 0), entry("set/run.log", "file", 10)];
    const { id } = await call("", { name: "set", entries, seal: true });
    await call(`/${id}/failures`, { failures: [{ entry: 1, cause: "unreadable", detail: "It was locked." }] });
    await call(`/${id}/finish`, {});
    return id;
  });
  await page.goto(line.over(`${depot.url}/#/resume/${id}`));
  await page.getByText("1 file did not arrive before").waitFor();
  const pick = page.locator("input[data-pick=files]");
  await pick.setInputFiles([{ name: "stray.log", mimeType: "", buffer: Buffer.from("other") }]);
  await page.getByText("None of these files is part of this transfer").waitFor();
  assert.equal(await page.getByRole("button", { name: "Resume with" }).isDisabled(), true);
  await page.getByRole("button", { name: "Remove stray.log" }).click();
  await pick.setInputFiles(join(set, "run.log"));
  await page.locator(".notice", { hasText: "1 file has the name of what did not arrive, and is sent in its place" }).getByText("set/run.log").waitFor();
  assert.equal(await page.getByText("1 file did not arrive before").count(), 0);
  await page.getByRole("button", { name: "Resume with 1 file" }).click();
  await arrived(page);
  await page.getByText("Sent, stored and verified").waitFor();
  assert.deepEqual((await ask<EntryPage>(page, `/${id}/entries?from=0&limit=100`)).entries.map(({ path, state }) => [path, state]), [
    ["set", "complete"], ["set/run.log", "failed"], ["set/run.log", "complete"],
  ]);
});

test("what a tab left behind that ended before it could finish is finished from where none of its files is", { timeout: 60_000 }, async (t) => {
  const { depot, browser, page, line, set } = await setUp(t, { "set/one": 100_000, "set/two": 200_000 });
  // In the page: what is intercepted goes on where the page is closed just then.
  await page.evaluate(() => {
    const real = window.fetch;
    window.fetch = (input, init) => (String(input).includes("/finish") ? Promise.reject(new TypeError("cut off")) : real(input, init));
  });
  await startSending(page, [set]);
  const complete = async () => Object.values(await states(page)).filter((state) => state === "complete").length;
  while ((await complete()) < ["set", "set/one", "set/two"].length) await page.waitForTimeout(50);
  const { id } = (await ask<{ transfers: Transfer[] }>(page, "")).transfers[0]!;
  const other = await browser.context.newPage();
  await page.close();
  await other.goto(line.over(`${depot.url}/#/resume/${id}`));
  await other.getByText("All that was to come is in the depot").waitFor();
  await other.locator("input[data-pick=files]").setInputFiles([{ name: "other", mimeType: "", buffer: Buffer.from("other") }]);
  await other.getByText("None of these files is part of this transfer").waitFor();
  assert.equal(await other.getByRole("button", { name: "Resume with" }).isDisabled(), true);
  await other.getByRole("button", { name: "Finish" }).click();
  await arrived(other);
  await other.getByText("Sent, stored and verified").waitFor();
});
