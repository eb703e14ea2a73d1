// The page worked by keys alone.
import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Locator, Page, Route } from "playwright-core";
import { scratch, write } from "./files";
import { depotInMemory } from "./in_memory";
import { answerFolderPicker, arrived, isUnderWay, signIn, startSending } from "./steps";

/** More than are seen at once, with the margins. */
const COUNT = 40;

async function setUp(t: TestContext) {
  const folder = await scratch(t);
  const { depot, page } = await depotInMemory(t);
  const names = Array.from({ length: COUNT }, (_, at) => `file ${at}.txt`);
  await write(folder, Object.fromEntries(names.map((name) => [name, 100])));
  await signIn(page, depot);
  return { depot, page, files: names.map((name) => join(folder, name)) };
}

/** What has the focus: by its label, or what it says. */
function focused(page: Page): Promise<string> {
  return page.evaluate(() => {
    const { activeElement } = document;
    const label = activeElement instanceof HTMLInputElement ? activeElement.labels?.[0]?.textContent : activeElement?.getAttribute("aria-label");
    return label ?? activeElement?.textContent?.slice(0, 50) ?? "";
  });
}

/** The row that a screen reader is told of. */
function activeRow(page: Page): Promise<string | undefined> {
  return page.evaluate(() => {
    const id = document.querySelector("[role=treegrid]")!.getAttribute("aria-activedescendant")!;
    return document.getElementById(id)?.querySelector(".name")?.textContent ?? undefined;
  });
}

test("a list is one stop for the tab key, and its rows are removed by the delete key", async (t) => {
  const { page, files } = await setUp(t);
  await page.locator("input[data-pick=files]").setInputFiles(files);
  const grid = page.getByRole("treegrid");
  await grid.focus();
  await page.keyboard.press("Tab");
  assert.equal(await focused(page), "Name");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Delete");
  await page.getByRole("heading", { name: `${COUNT - 1} files` }).waitFor();
  const said = page.locator("#announcer");
  assert.equal(await said.textContent(), `file 1.txt removed, ${COUNT - 1} files`);
  assert.equal(await focused(page), "What will be sent");
  assert.equal(await activeRow(page), "file 2.txt");

  await page.getByRole("button", { name: "Remove file 5.txt" }).click();
  await page.getByRole("heading", { name: `${COUNT - 2} files` }).waitFor();
  assert.equal(await said.textContent(), `file 5.txt removed, ${COUNT - 2} files`);
  assert.equal(await focused(page), "What will be sent");

  for (let left = COUNT - 3; left >= 0; left--) {
    await page.keyboard.press("Delete");
    if (left > 0) await page.getByRole("heading", { name: new RegExp(`^${left} files?$`) }).waitFor();
  }
  await page.getByText("Drop files or whole folders here").waitFor();
  assert.equal(await focused(page), "Send", "the heading, and not nothing");
});

test("what was said to a screen reader does not stay in the page, where it would be met once more", async (t) => {
  const { page, files } = await setUp(t);
  const said = page.locator("#announcer");
  await page.clock.install();
  await page.locator("input[data-pick=files]").setInputFiles(files);
  assert.equal(await said.textContent(), `${COUNT} files chosen`);
  await page.clock.runFor(10_000);
  assert.equal(await said.textContent(), "");
});

test("the row that a list is at is there also when it was scrolled out of sight", async (t) => {
  const { page, files } = await setUp(t);
  await page.locator("input[data-pick=files]").setInputFiles(files);
  const grid = page.getByRole("treegrid");
  await grid.focus();
  await grid.evaluate((element) => (element.scrollTop = element.scrollHeight));
  await page.getByRole("row", { name: `file ${COUNT - 1}.txt` }).waitFor();
  assert.equal(await activeRow(page), "file 0.txt");
  assert.equal(await grid.evaluate((element) => element.scrollTop > 0), true);
});

test("of a transfer a file is chosen by keys, and what follows the list is its download", async (t) => {
  const { page, files } = await setUp(t);
  await page.locator("input[data-pick=files]").setInputFiles(files);
  await startSending(page, []);
  await page.goto(await arrived(page));
  await page.getByRole("row", { name: "file 1.txt" }).waitFor();
  await page.getByRole("treegrid").focus();
  await page.keyboard.press("ArrowDown");
  await page.getByLabel("Details").getByText("file 1.txt").waitFor();
  await page.keyboard.press("Tab");
  const next = page.locator(":focus");
  assert.equal(await next.textContent(), "Download");
});

test("what takes itself away leaves the focus beside it", async (t) => {
  const { depot, page, files } = await setUp(t);
  for (let at = 0; at < 60; at++) depot.create(`transfer ${at}`, 7);
  const reached = (what: string) => page.waitForFunction((what) => document.activeElement?.textContent === what, what);
  await page.getByRole("link", { name: "Transfers" }).click();
  await page.getByRole("button", { name: "Show more" }).click();
  await reached("transfer 9");

  const remove = async (name: string) => {
    await page.locator(".transfer", { hasText: name }).getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  };
  await remove("transfer 59");
  await reached("transfer 58");

  const extended = page.locator(".transfer", { hasText: "transfer 58" });
  await extended.getByRole("button", { name: "Extend" }).press("Enter");
  await page.getByLabel("From today, keep it for").selectOption("3650");
  await page.getByRole("dialog").getByRole("button", { name: "Extend" }).press("Enter");
  await extended.getByText("expires in").waitFor();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement?.textContent === "Extend");
  await page.keyboard.press("Enter");
  assert.equal(await page.getByRole("dialog").count(), 0, "there is no longer time");

  depot.transfers.clear();
  depot.create("the only one", 7);
  await page.getByRole("link", { name: "Send", exact: true }).click();
  await page.getByRole("link", { name: "Transfers" }).click();
  await remove("the only one");
  await page.getByText("Nothing here yet").waitFor();
  await reached("Transfers");

  depot.onPut = () => true;
  await page.getByRole("link", { name: "Send", exact: true }).click();
  await page.locator("input[data-pick=files]").setInputFiles(files);
  await startSending(page, []);
  await isUnderWay(page);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Keep for later" }).click();
  await page.getByRole("heading", { name: "Transfers" }).waitFor();
  await reached("Transfers");
});

test("the heading of a view takes the focus before anybody can, and not from what has it by then", async (t) => {
  const { depot, page, files } = await setUp(t);
  depot.onPut = () => true;
  // What takes the focus as soon as it is there.
  await page.evaluate(() => {
    let last: HTMLElement | undefined;
    new MutationObserver(() => {
      const comes = [...document.querySelectorAll<HTMLElement>("button, #token")].find(({ id, textContent }) => id === "token" || textContent === "Pause");
      if (comes !== last) comes?.focus();
      last = comes;
    }).observe(document.body, { childList: true, subtree: true });
  });
  // A view has its title after it was painted.
  const titled = (like: string) => page.waitForFunction((like) => document.title.includes(like), like);
  await page.locator("input[data-pick=files]").setInputFiles(files);
  await startSending(page, [], "a set");
  await titled("a set");
  assert.equal(await focused(page), "Pause");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Sign out" }).click();
  await titled("Sign in");
  assert.equal(await focused(page), "Access token");
});

test("what was pressed keeps the focus while it is under way, and does nothing else meanwhile", async (t) => {
  const { depot, page, files } = await setUp(t);
  const alert = page.getByRole("alert");
  const dialog = page.getByRole("dialog");
  const named = (name: string) => page.getByRole("button", { name, exact: true });
  /** Presses `button` twice, and has the depot refuse it. */
  const keeps = async (button: Locator, method: string, path: RegExp) => {
    const asked: Route[] = [];
    const answer = (route: Route) => (route.request().method() === method ? void asked.push(route) : route.fallback());
    await page.route(path, answer);
    await button.press("Enter");
    await page.waitForFunction(() => document.activeElement?.getAttribute("aria-disabled") === "true");
    assert.equal(await button.evaluate((element) => getComputedStyle(element).opacity), "0.5");
    await page.keyboard.press("Enter");
    while (asked.length === 0) await page.waitForTimeout(20);
    await asked[0]!.fulfill({ status: 403, json: { error: { code: "forbidden", message: "the token may not", retry: false } } });
    await alert.getByText("The token may not.").waitFor();
    assert.equal(asked.length, 1);
    assert.equal(await button.evaluate((element) => element === document.activeElement), true);
    await page.unroute(path, answer);
  };
  const transfer = /transfers\/\w+$/;

  const open = depot.create("arrived", 7);
  open.entries.push({ entry: 0, path: "a", kind: "file", size: 10, mtime: 0, mtime_nanos: 0, mode: 0o644, state: "pending", address: 0 });
  open.blocks.set(0, Buffer.from("ten bytes."));
  await page.getByRole("link", { name: "Transfers" }).click();
  for (const action of ["Extend", "Delete"]) {
    await named(action).click();
    await keeps(dialog.getByRole("button", { name: action }), action === "Extend" ? "PATCH" : "DELETE", transfer);
    await page.keyboard.press("Escape");
  }
  await named("Resume").click();
  await named("Finish").waitFor();
  await keeps(named("Finish"), "GET", transfer);

  depot.onPut = () => true;
  await page.getByRole("link", { name: "Send", exact: true }).click();
  // That view takes files, too.
  await named("Finish").waitFor({ state: "hidden" });
  await page.locator("input[data-pick=files]").setInputFiles(files);
  await startSending(page, []);
  for (const [pressed, next] of [["Pause", "Continue"], ["Continue", "Pause"]] as const) {
    await named(pressed).press("Enter");
    await named(next).waitFor();
    assert.equal(await focused(page), next);
  }
  await named("Cancel").click();
  await keeps(dialog.getByRole("button", { name: "Delete" }), "DELETE", transfer);
  await page.keyboard.press("Escape");
  await named("Sign out").click();
  await keeps(dialog.getByRole("button", { name: "Sign out" }), "DELETE", /session$/);
  await dialog.getByRole("button", { name: "Sign out" }).press("Enter");

  const token = page.getByLabel("Access token");
  await token.press("Enter");
  assert.equal(await token.evaluate((element) => element === document.activeElement), true, "there is nothing to sign in with");
  await token.fill("tht_wrong");
  await keeps(named("Sign in"), "POST", /session$/);
});

test("saving into a folder and its end leave the focus beside what they take away", async (t) => {
  const { page, files } = await setUp(t);
  await answerFolderPicker(page);
  await page.locator("input[data-pick=files]").setInputFiles(files);
  await startSending(page, [], "a set");
  await page.goto(await arrived(page));
  await page.getByRole("button", { name: "Save into a folder" }).click();
  const saved = `${COUNT} files received and verified`;
  await page.getByText(saved).waitFor();
  assert.equal(await focused(page), saved);
  await page.getByRole("button", { name: "Close" }).click();
  await page.waitForFunction(() => document.activeElement?.textContent === "a set");
});
