// What is done until the depot has taken a transfer, and after it is over.
import assert from "node:assert/strict";
import { utimesSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { Page } from "playwright-core";
import { write } from "./files";
import { onlyTransfer, setUp } from "./rig";
import { arrived, startSending } from "./steps";

const TRANSFERS = "**/api/v1/transfers";

/** The depot makes a transfer whenever it is asked to, and its answer waits for what is returned. */
async function holdAnswer(page: Page): Promise<() => void> {
  let answer = () => {};
  const answered = new Promise<void>((resolve) => (answer = resolve));
  await page.route(TRANSFERS, async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    const response = await route.fetch();
    await answered;
    await route.fulfill({ response });
  });
  return answer;
}

test("a transfer is made once, though the answer to its beginning is lost", async (t) => {
  const { depot, page, folder } = await setUp(t);
  let lost = 0;
  await page.route(TRANSFERS, async (route) => {
    if (route.request().method() !== "POST" || lost++ > 0) return route.continue();
    await route.fetch();
    return route.abort("connectionreset");
  });
  await startSending(page, [join(folder, "small")]);
  await arrived(page);
  assert.deepEqual([depot.transfers.size, onlyTransfer(depot).state], [1, "complete"]);
});

test("what begins says so, takes nothing more, and can be called off: then the depot keeps nothing of it", async (t) => {
  const { depot, page, folder } = await setUp(t);
  await page.route(TRANSFERS, (route) => (route.request().method() === "POST" ? route.abort() : route.continue()));
  await startSending(page, [join(folder, "small")]);
  await page.getByRole("status").getByText("Connection lost. Trying again…").waitFor();
  assert.deepEqual([await page.locator(".drop").count(), await page.getByRole("button", { name: /^Remove/ }).count()], [0, 0]);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: /^Send 2 files/ }).waitFor();
  await page.unroute(TRANSFERS);

  const answer = await holdAnswer(page);
  await startSending(page, []);
  await page.getByRole("status").getByText("Telling the depot what comes…").waitFor();
  while (depot.transfers.size === 0) await page.waitForTimeout(20);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: /^Send 2 files/ }).waitFor();
  answer();
  while (depot.transfers.size > 0) await page.waitForTimeout(20);
  await page.unroute(TRANSFERS);
  await startSending(page, []);
  await arrived(page);
  assert.equal(depot.transfers.size, 1);
});

test("whoever signs out while a transfer begins leaves nothing of it in the depot", async (t) => {
  const { depot, page, folder } = await setUp(t);
  const answer = await holdAnswer(page);
  await startSending(page, [join(folder, "small")]);
  while (depot.transfers.size === 0) await page.waitForTimeout(20);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("button", { name: /^Send 2 files/ }).waitFor();
  answer();
  await page.getByLabel("Access token").waitFor();
  assert.equal(depot.transfers.size, 0);
});

test("a late answer to what was to end one transfer does not end the next", async (t) => {
  const { depot, page, folder } = await setUp(t, 10e9, "channels=2");
  let finish = () => {};
  const finishing = new Promise<void>((resolve) => (finish = resolve));
  await page.route(/finish/, async (route) => {
    await finishing;
    await route.continue();
  });
  await startSending(page, [join(folder, "small")], "first");
  let remove = () => {};
  const removing = new Promise<void>((resolve) => (remove = resolve));
  await page.route(/transfers\/\w+$/, async (route) => {
    await removing;
    await route.fulfill({ status: 204 });
  });
  await page.getByText("Making sure").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  const removed = page.waitForResponse((answer) => answer.request().method() === "DELETE");
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  finish();
  await page.getByRole("button", { name: "Send something else" }).click();
  // It takes nothing, and does not say so.
  depot.onPut = () => true;
  await startSending(page, [folder], "second");
  await page.getByRole("heading", { name: "second" }).waitFor();
  remove();
  await removed;
  // The list, asked for after that answer, comes after it, and says what is still sent by then.
  await page.getByRole("link", { name: "Transfers" }).click();
  await page.getByRole("link", { name: "Show progress" }).click();
  await page.getByRole("heading", { name: "second" }).waitFor();
});

test("files of the first seconds of 1970 are declared with their times", async (t) => {
  const { depot, page, folder } = await setUp(t);
  const paths = Object.entries({ one: 0.5, two: 1 }).map(([name, time]) => {
    const path = join(folder, "small", name);
    utimesSync(path, time, time);
    return path;
  });
  await page.locator("input[data-pick=files]").setInputFiles(paths);
  await startSending(page, []);
  await arrived(page);
  const times = onlyTransfer(depot).entries.map(({ path, mtime, mtime_nanos }) => [path, mtime, mtime_nanos]);
  assert.deepEqual(times, [["one", 0, 500_000_000], ["two", 1, 0]]);
});

test("the content of what was sent is shown beside its link, which stays", async (t) => {
  const { page, folder } = await setUp(t);
  await startSending(page, [join(folder, "small")]);
  const link = await arrived(page);
  const opened = page.context().waitForEvent("page");
  await page.getByRole("link", { name: "Show its content" }).click();
  await (await opened).getByRole("button", { name: "Save into a folder" }).waitFor();
  assert.equal(await page.getByLabel("Anyone with this link can download it").inputValue(), link);
});

test("what is more than a quota allows leaves nothing in the depot, and is still chosen: what was sent already stays", async (t) => {
  const { depot, page, folder } = await setUp(t);
  const small = Object.fromEntries(Array.from({ length: 150 }, (_, at) => [`many/f${at}`, 10]));
  await write(folder, { ...small, "large/a.raw": 9_000_000, ...Object.fromEntries(Object.keys(small).map((path) => [path.replace("many", "large"), 10])) });
  const message = "1.5 MB more would pass the token's quota of 1 MB";
  let refused = async () => {};
  await page.route("**/entries", async (route) => {
    await refused();
    await route.fulfill({ status: 507, json: { error: { code: "quota_exceeded", message, retry: false } } });
  });
  // What is sent of the first batch does not arrive before the second is refused.
  let release = () => {};
  const released = new Promise<void>((resolve) => (release = resolve));
  await page.route("**/bytes/**", async (route) => {
    await released;
    await route.continue().catch(() => {});
  });
  await startSending(page, [join(folder, "many")], "too much");
  const alert = page.getByRole("alert");
  await alert.getByText(/nothing was sent.*1\.5 MB more would pass/).waitFor();
  assert.equal(depot.transfers.size, 0);
  await page.getByRole("button", { name: "Send 150 files, 1.50 kB" }).waitFor();
  assert.equal(await page.getByLabel("Name").inputValue(), "too much");

  release();
  await page.unroute("**/bytes/**");
  await page.getByRole("button", { name: "Remove many", exact: true }).click();
  const answered = page.waitForResponse((response) => response.request().method() === "PUT");
  refused = async () => void (await (await answered).finished());
  await startSending(page, [join(folder, "large")]);
  await alert.getByText(/^1\.5 MB more would pass/).waitFor();
  assert.equal(depot.transfers.size, 1);
  await page.getByRole("button", { name: "Try again" }).waitFor();
});
