// The list of transfers, and who may do what with them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { setUp } from "./rig";

test("of a transfer that another sends it is said whose it is, and nothing offered that the depot would refuse", async (t) => {
  const { depot, page } = await setUp(t);
  const others = depot.create("the others' study", 7, "microscope");
  depot.create("the own study", 7);
  for (const one of depot.transfers.values()) one.entries.push({ ...ENTRY });
  const card = (name: string) => page.locator(".transfer", { hasText: name });
  const buttons = (name: string) => card(name).getByRole("button").allInnerTexts();
  const look = async (heading: string) => {
    await page.reload();
    await page.getByRole("link", { name: heading, exact: true }).click();
    await page.getByRole("heading", { name: heading, exact: true }).waitFor();
    await card("the own study").waitFor();
  };
  await look("Transfers");
  await card("the others' study").getByText("from microscope").waitFor();
  assert.deepEqual(await buttons("the others' study"), ["Resume", "Extend", "Delete"], "the owner may");
  assert.equal(await card("the own study").getByText("from ").count(), 0);

  depot.session = { ...depot.session, scopes: ["send", "receive"] };
  await look("Transfers");
  assert.deepEqual(await buttons("the others' study"), []);
  assert.deepEqual(await buttons("the own study"), ["Resume", "Extend", "Delete"]);
  await page.getByRole("link", { name: "Send", exact: true }).click();
  await page.getByText("“the own study” is unfinished").waitFor();

  depot.session = { ...depot.session, scopes: ["send"] };
  depot.transfers.delete(others.id);
  await look("My transfers");
});

test("whoever may only receive is told so before he chooses something to send", async (t) => {
  const { depot, page } = await setUp(t);
  depot.session = { ...depot.session, scopes: ["receive"] };
  await page.reload();
  await page.getByText("signed in with a token that may only receive").waitFor();
  assert.deepEqual([await page.locator(".drop").count(), await page.locator("input[type=file]").count()], [0, 0]);
  await page.getByRole("navigation").getByRole("link", { name: "Transfers" }).click();
  await page.getByText("Nothing here yet.").waitFor();
  assert.equal(await page.getByRole("link", { name: "Send something" }).count(), 0);
});

test("what is sent is kept for as long as the depot keeps transfers, unless another time is chosen", async (t) => {
  const { depot, page, folder } = await setUp(t);
  depot.session = { ...depot.session, expires_in_days: 14 };
  await page.reload();
  await page.locator("input[data-pick=folder]").setInputFiles(`${folder}/small`);
  const kept = page.getByLabel("Keep for");
  assert.equal(await kept.inputValue(), "14");
  assert.deepEqual(await kept.locator("option").allTextContents(), ["1 day", "7 days", "14 days", "30 days", "90 days"]);
  const asked = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/transfers"));
  await page.getByRole("button", { name: /^Send 2 files/ }).click();
  assert.equal((await asked).postDataJSON().expires_in_days, 14);
});

test("how long a transfer is kept is told by the depot's clock, where this device's is days ahead", async (t) => {
  const { depot, page } = await setUp(t);
  depot.create("the study", 7).entries.push({ ...ENTRY });
  await page.clock.setFixedTime(Date.now() + 40 * 86_400_000);
  await page.reload();
  await page.getByText("“the study” is unfinished").waitFor();
  await page.getByRole("link", { name: "Transfers" }).click();
  await page.getByText("expires in 7 days").waitFor();
  await page.getByRole("button", { name: "Extend" }).click();
  const until = new Date(Date.now() + 30 * 86_400_000).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  assert.equal(await page.getByLabel("From today, keep it for").locator("option").first().textContent(), `30 days, until ${until}`);
});

test("a file that failed and came once more counts once, as its receipt has it", async (t) => {
  const { depot, page } = await setUp(t);
  const study = depot.create("the study", 7);
  study.state = "complete";
  study.entries.push({ ...ENTRY, state: "failed", superseded: true }, { ...ENTRY, entry: 1, path: "b", state: "complete" }, { ...ENTRY, entry: 2, state: "complete" });
  await page.getByRole("link", { name: "Transfers" }).click();
  await page.getByText("2 files, 20 B").waitFor();
});

test("when all that is listed has been deleted, the rest of the list comes", async (t) => {
  const { depot, page } = await setUp(t);
  for (let at = 0; at < 5; at++) depot.create(`study ${at}`, 7);
  // Pages of two.
  await page.route(/transfers\?limit/, (route) => route.continue({ url: route.request().url().replace(/limit=\d+/, "limit=2") }));
  await page.getByRole("link", { name: "Transfers" }).click();
  for (const at of [4, 3]) {
    const card = page.locator(".transfer", { hasText: `study ${at}` });
    await card.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await card.waitFor({ state: "detached" });
  }
  await page.getByRole("heading", { name: "study 1" }).waitFor();
  assert.deepEqual(await page.locator(".transfer h2").allInnerTexts(), ["study 2", "study 1"]);
  await page.waitForFunction(() => document.activeElement?.textContent === "study 2");
});

const ENTRY = {
  entry: 0, path: "a", kind: "file", size: 10, mtime: 0, mtime_nanos: 0, mode: 0o644, address: 0, state: "pending",
} as const;
