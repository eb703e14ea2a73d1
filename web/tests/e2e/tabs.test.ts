// What a tab that sends has of the browser, what other tabs see of it, and what they, or other devices, do to it.
import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { FakeDepot } from "../fake/depot";
import { drop } from "./browser";
import { onlyTransfer, sendElsewhere, setUp } from "./rig";
import { arrived, busyTabs, isUnderWay, sendPart, signIn, startSending } from "./steps";

/** A tab that sends “the study”, and goes on with that, and another one that shows nothing yet. */
async function besideASender(t: TestContext) {
  const { depot, page, folder } = await setUp(t, 10e9, "channels=2");
  // It takes nothing, and does not say so.
  depot.onPut = () => true;
  await startSending(page, [folder], "the study");
  await page.getByRole("heading", { name: "the study" }).waitFor();
  // Others see it from then on.
  await busyTabs(page, 1);
  return { depot, page, folder, other: await page.context().newPage() };
}

test("what another tab sends is not gone on with until that has ended, and then as it is by then", async (t) => {
  const { depot, page, folder, other } = await besideASender(t);
  // Of two, the earlier one is offered only where the later one is known to be sent.
  const earlier = depot.create("the survey", 7);
  earlier.created -= 60;
  earlier.entries.push({ path: "a", kind: "file", size: 5, mtime: 1, mtime_nanos: 0, mode: 0o644, entry: 0, address: 0, state: "pending" });
  await other.goto(page.url());
  await other.getByText("“the survey” is unfinished").waitFor();
  await other.evaluate((id) => (location.hash = `#/resume/${id}`), onlyTransfer(depot).id);
  const elsewhere = other.getByText("Another tab of this browser is sending it.");
  await elsewhere.waitFor();
  rmSync(join(folder, "b.raw"));
  await drop(other, [folder]);
  const goOn = other.getByRole("button", { name: "Resume with 3 files" });
  await other.getByText("1 unfinished file not chosen").waitFor();
  await goOn.waitFor();
  assert.equal(await goOn.isDisabled(), true);
  sendElsewhere(depot, "set/b.raw");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Keep for later" }).click();
  await elsewhere.waitFor({ state: "hidden" });
  await other.getByText("not chosen").waitFor({ state: "hidden" });
  assert.equal(await goOn.isDisabled(), false);
  await other.getByRole("link", { name: "Send", exact: true }).click();
  await other.getByText("“the study” is unfinished").waitFor();
});

test("who signs out where another tab sends is asked, since that stops it", async (t) => {
  const { depot, page, other } = await besideASender(t);
  await other.goto(page.url());
  await other.getByRole("button", { name: "Sign out" }).click();
  const asked = other.getByText("Another tab of this browser is still sending.");
  await asked.waitFor();
  await other.getByRole("button", { name: "Keep sending" }).click();
  await asked.waitFor({ state: "hidden" });
  assert.equal(await page.getByRole("heading", { name: "the study" }).count(), 1);
  await other.getByRole("button", { name: "Sign out" }).click();
  await other.getByRole("dialog").getByRole("button", { name: "Sign out" }).click();
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
  await other.getByLabel("Access token").fill(depot.token);
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.getByText("Drop files").first().waitFor();
  assert.equal(await asked.count(), 0);
});

test("what has arrived from elsewhere since it was looked at is not given up as not chosen", async (t) => {
  const { depot, page, folder } = await setUp(t, 10e9, "channels=2");
  depot.onPut = () => true;
  await startSending(page, [folder]);
  await isUnderWay(page);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Keep for later" }).click();
  await page.getByRole("button", { name: "Resume" }).click();
  rmSync(join(folder, "b.raw"));
  await drop(page, [folder]);
  const missing = page.getByText("1 unfinished file not chosen");
  await missing.waitFor();
  depot.onPut = () => false;
  sendElsewhere(depot, "set/b.raw");
  const goOn = page.getByRole("button", { name: "Resume with 3 files" });
  await goOn.click();
  await page.getByText("It was resumed from elsewhere meanwhile").waitFor();
  assert.equal(await missing.count(), 0);
  await goOn.click();
  await arrived(page);
  assert.equal(onlyTransfer(depot).state, "complete");
});

test("what is finished from elsewhere is not finished again", async (t) => {
  const { depot, page } = await setUp(t);
  const transfer = depot.create("the study", 7);
  transfer.entries.push({ path: "a", kind: "file", size: 0, mtime: 1, mtime_nanos: 0, mode: 0o644, entry: 0, address: null, state: "complete" });
  await page.getByRole("link", { name: "Transfers" }).click();
  await page.getByRole("button", { name: "Resume" }).click();
  const finish = page.getByRole("button", { name: "Finish" });
  await finish.waitFor();
  transfer.entries.push({ ...transfer.entries[0]!, path: "b", size: 5, entry: 1, address: 0, state: "pending" });
  await finish.click();
  await page.getByText("It was resumed from elsewhere meanwhile").waitFor();
  assert.deepEqual([await finish.count(), depot.finishes.length], [0, 0]);
});

test("two tabs that send at once over a thin line leave a connection for a third", async (t) => {
  const { depot, page, folder } = await setUp(t);
  // What it is sent takes for ever.
  depot.onPut = () => true;
  const tabs = [page, await page.context().newPage()];
  for (const [at, tab] of tabs.entries()) {
    if (at > 0) await signIn(tab, { page: page.url() });
    await startSending(tab, [folder], `the study ${at}`);
    await tab.getByRole("heading", { name: `the study ${at}` }).waitFor();
  }
  const third = await page.context().newPage();
  await third.goto(new URL("/#/transfers", page.url()).href);
  for (const at of tabs.keys()) await third.getByRole("heading", { name: `the study ${at}` }).waitFor();
});

test("a tab that pauses or has stopped leaves its share to others, and is still the one that sends its transfer", async (t) => {
  const { depot, page, folder } = await setUp(t);
  depot.onPut = () => true;
  const other = await page.context().newPage();
  await other.goto(page.url());
  await startSending(page, [folder]);
  await busyTabs(other, 1);
  await page.getByRole("button", { name: "Pause" }).click();
  await busyTabs(other, 0);
  await other.evaluate((id) => (location.hash = `#/resume/${id}`), onlyTransfer(depot).id);
  await other.getByText("Another tab of this browser is sending it.").waitFor();
  await page.getByRole("button", { name: "Continue" }).click();
  await busyTabs(other, 1);
  await page.getByRole("button", { name: "Pause" }).click();
  depot.onPut = () => false;
  depot.transfers.clear();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("status").getByText("Stopped", { exact: true }).waitFor();
  await busyTabs(other, 0);
});

test("the screen is kept on while something is sent, and not in a pause or after the end", async (t) => {
  const { depot, page, folder } = await setUp(t, 10e9, "channels=2");
  await page.addInitScript(() => {
    const kept = { on: 0 };
    const request = async () => {
      kept.on++;
      return { release: async () => void kept.on-- };
    };
    Object.assign(window, { kept });
    Object.defineProperty(navigator, "wakeLock", { value: { request } });
  });
  await page.reload();
  const on = (is: number) => page.waitForFunction((is) => (window as unknown as { kept: { on: number } }).kept.on === is, is);
  depot.onPut = () => true;
  await startSending(page, [folder]);
  await on(1);
  await page.getByRole("button", { name: "Pause" }).click();
  await on(0);
  await page.getByRole("button", { name: "Continue" }).click();
  await on(1);
  // Browsers let go of it when the page is out of sight; it is asked for again.
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await on(1);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Keep for later" }).click();
  await on(0);
});

test("a transfer that was deleted while it was sent is left without a question, also where that was asked before", async (t) => {
  const { depot, line, page, folder } = await setUp(t, 30e6, "channels=1&chunk=4");
  await sendPart(page, line, 10e6, [folder]);
  await page.getByRole("button", { name: "Cancel" }).click();
  const question = page.getByRole("dialog");
  await question.waitFor();
  depot.transfers.clear();
  line.mend();
  const gone = page.getByText("There is no such transfer. It may have been deleted.");
  await gone.waitFor();
  await question.waitFor({ state: "hidden" });
  // What was said before may still be there for a moment, and who cancels before it is said again is asked.
  let answer = () => {};
  const answered = new Promise<void>((resolve) => (answer = resolve));
  await page.route(/\/transfers\//, async (route) => {
    await answered;
    await route.continue().catch(() => {});
  });
  await page.getByRole("button", { name: "Try again" }).click();
  await gone.waitFor({ state: "hidden" });
  answer();
  await gone.waitFor();
  assert.equal(await question.count(), 0);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByText("Nothing here yet.").waitFor();
  assert.equal(await question.count(), 0);
});

const ELSEWHERE = [
  ["deleted", (depot: FakeDepot) => depot.transfers.clear(), "There is no such transfer. It may have been deleted."],
  ["finished", (depot: FakeDepot) => (onlyTransfer(depot).state = "partial"), "It was finished from elsewhere meanwhile: look at the list of transfers"],
] as const;

for (const [what, act, said] of ELSEWHERE) {
  test(`a transfer that is ${what} from elsewhere while it is sent is said to be ${what}`, async (t) => {
    const { depot, line, page, folder } = await setUp(t, 30e6, "channels=1&chunk=4");
    // As a depot answers what is under way at that moment.
    await page.route(/\/bytes\//, async (route) => {
      const error = { code: "not_open", message: "the transfer is finished: append to it to open it again", retry: false };
      return onlyTransfer(depot)?.state === "open" ? route.continue() : route.fulfill({ status: 409, json: { error } });
    });
    await sendPart(page, line, 10e6, [folder]);
    act(depot);
    line.mend();
    await page.getByText(said).waitFor();
  });
}
