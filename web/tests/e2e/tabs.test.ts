// What a tab that sends has of the browser, and what other tabs see of it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { drop } from "./browser";
import { onlyTransfer, setUp } from "./rig";
import { startSending } from "./steps";

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
