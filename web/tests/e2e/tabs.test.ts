// What a tab that sends has of the browser, what other tabs see of it, and what they, or other devices, do to it.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { FakeDepot } from "../fake/depot";
import { drop } from "./browser";
import { onlyTransfer, setUp } from "./rig";
import { sendPart, startSending } from "./steps";

test("what another tab sends is not gone on with, until that has ended", async (t) => {
  const { depot, page, folder } = await setUp(t, 10e9, "channels=2");
  // It takes nothing, and does not say so.
  depot.onPut = () => true;
  await startSending(page, [folder], "the study");
  await page.getByRole("heading", { name: "the study" }).waitFor();
  const other = await page.context().newPage();
  const looked = other.waitForResponse(/transfers\?limit/);
  await other.goto(page.url());
  await looked;
  await other.getByText("Drop files").first().waitFor();
  await other.waitForTimeout(200);
  assert.equal(await other.getByText("is unfinished").count(), 0);
  await other.evaluate((id) => (location.hash = `#/resume/${id}`), onlyTransfer(depot).id);
  const elsewhere = other.getByText("Another tab of this browser is sending it.");
  await elsewhere.waitFor();
  await drop(other, [folder]);
  const goOn = other.getByRole("button", { name: "Go on with 4 files" });
  await goOn.waitFor();
  assert.equal(await goOn.isDisabled(), true);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Keep for later" }).click();
  await elsewhere.waitFor({ state: "hidden" });
  assert.equal(await goOn.isDisabled(), false);
  await other.getByRole("link", { name: "Send", exact: true }).click();
  await other.getByText("“the study” is unfinished").waitFor();
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
  await page.getByRole("button", { name: "Resume" }).click();
  await on(1);
  // Browsers let go of it when the page is out of sight; it is asked for again.
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  await on(1);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Keep for later" }).click();
  await on(0);
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
    await page.getByText(said).waitFor({ timeout: 10_000 });
  });
}
