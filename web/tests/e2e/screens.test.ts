// A picture of every view, light and dark, wide and narrow, in test-results/screens: to be looked at.
import assert from "node:assert/strict";
import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { FakeDepot } from "../fake/depot";
import { openBrowser } from "./browser";
import { atEnd, scratch, write } from "./files";
import { Line } from "./line";
import { answerFolderPicker, arrived, sendPart, share, signIn, startSending } from "./steps";

const FILES: Record<string, number> = {
  "Run 7/detector.raw": 60_000_000,
  "Run 7/notes with a rather long name that has to be cut somewhere on a narrow screen.txt": 812,
  "Run 7/calibration/dark.fits": 4_300_000,
  ...Object.fromEntries(Array.from({ length: 120 }, (_, at) => [`Run 7/frames/frame-${String(at).padStart(4, "0")}.tif`, 30_000 + at * 977])),
};

interface Look {
  readonly label: string;
  readonly colorScheme: "light" | "dark";
  readonly viewport: { width: number; height: number };
}

const look = (colorScheme: Look["colorScheme"], width: number, height: number): Look =>
  ({ label: `${colorScheme}-${width}`, colorScheme, viewport: { width, height } });

/** Every view is looked at in all of these, one after the other: a window is made narrower, too, while something is under way. */
const LOOKS = [look("light", 1200, 800), look("dark", 1200, 800), look("dark", 360, 740), look("light", 360, 740), look("light", 320, 640)];
/** With text of twice the size, as a browser is set before it starts. */
const LARGE_TEXT = [look("light", 360, 740), look("light", 320, 640)].map((one) => ({ ...one, label: `${one.label}-large-text` }));

for (const [name, textSize, looks] of [["of every width, light and dark", 16, LOOKS], ["with large text", 32, LARGE_TEXT]] as const) {
  test(`screens, ${name}`, async (t) => {
    const folder = await scratch(t);
    const depot = await FakeDepot.start();
    const line = await Line.to({ url: depot.url, page: depot.page, token: depot.token, real: false, stop: async () => {} }, 80e6);
    const { page, complaints, close } = await openBrowser({ textSize });
    atEnd(t, async () => {
      await close();
      line.close();
      depot.close();
    });
    await write(folder, FILES);
    let number = 0;
    const shoot = async (name: string) => {
      number++;
      for (const { label, colorScheme, viewport } of looks) {
        await page.setViewportSize(viewport);
        await page.emulateMedia({ colorScheme });
        await page.screenshot({ path: `test-results/screens/${label}/${number}-${name}.png`, animations: "disabled" });
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(overflow <= 0, `${name} is ${overflow} pixels too wide, ${label}`);
        const cut = await page.evaluate(cutOff);
        assert.deepEqual(cut, [], `${name}: cut off or too small, ${label}`);
      }
    };

    await answerFolderPicker(page);
    await page.goto(line.over(`${depot.url}/`));
    await page.getByLabel("Access token").fill("tht_wrong");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").waitFor();
    await shoot("sign-in");
    await page.goto("about:blank");
    await signIn(page, { page: line.over(depot.page) });
    await shoot("send");
    await page.locator("input[data-pick=folder]").setInputFiles(join(folder, "Run 7"));
    await page.getByRole("button", { name: /^Send \d/ }).waitFor();
    await shoot("chosen");
    await page.route("**/api/v1/transfers", (route) => route.abort());
    await startSending(page, []);
    await page.getByText("Connection lost").waitFor();
    await shoot("beginning");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.unroute("**/api/v1/transfers");
    await sendPart(page, line, 45e6, []);
    while ((await share(page)) < 55) await page.waitForTimeout(20);
    await shoot("sending");
    line.cut();
    await page.getByText("Connection lost").waitFor();
    await shoot("lost");
    line.mend();
    void line.hold(10e6);
    await page.getByText("Sending", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await shoot("cancel");
    await page.getByRole("button", { name: "Keep sending" }).click();
    await appendFile(join(folder, "Run 7/detector.raw"), "x");
    line.mend();
    await arrived(page);
    await shoot("partial");
    await page.getByRole("button", { name: "Send something else" }).click();
    await page.locator("input[data-pick=folder]").setInputFiles(join(folder, "Run 7/frames"));
    await startSending(page, []);
    const link = await arrived(page);
    await shoot("sent");
    const interrupted = depot.create("Interrupted overnight run", 7);
    await page.getByRole("link", { name: "Transfers" }).click();
    await page.getByText("Interrupted").waitFor();
    await shoot("transfers");
    await page.getByRole("button", { name: "Delete" }).first().click();
    await page.getByRole("dialog").waitFor();
    await shoot("delete");
    await page.getByRole("button", { name: "Keep" }).click();
    await page.getByRole("button", { name: "Resume" }).last().click();
    await page.locator("input[data-pick=folder]").setInputFiles(join(folder, "Run 7/frames"));
    await page.getByRole("button", { name: /^Resume with/ }).waitFor();
    await shoot("resume");
    await page.goto(line.over(link));
    await page.getByRole("row", { name: "frame-0003.tif" }).click();
    await shoot("receive");
    await page.getByLabel("Details").scrollIntoViewIfNeeded();
    await shoot("details");
    await page.getByRole("button", { name: "Save into a folder" }).click();
    await page.getByText("files received and verified").waitFor();
    await shoot("received");
    await page.getByRole("button", { name: "Close" }).click();
    await page.evaluate(async () => {
      const frames = await (await navigator.storage.getDirectory()).getDirectoryHandle("frames");
      const stream = await (await frames.getFileHandle("frame-0003.tif")).createWritable();
      await stream.write("somebody's own");
      await stream.close();
    });
    await page.getByRole("button", { name: "Save into a folder" }).click();
    await page.getByRole("button", { name: "Leave it" }).waitFor();
    await shoot("asking");
    await page.getByRole("button", { name: "Leave it" }).click();
    await page.getByText("files received and verified").waitFor();
    await shoot("partly-received");
    const [, frame] = [...depot.transfers.values()][1]!.entries;
    interrupted.entries.push({ ...frame!, entry: 0, size: 21_000_000 });
    await page.goto(line.over(`${depot.url}/t/${interrupted.id}#${interrupted.secret}`));
    await page.getByText("The sender has not finished yet.").waitFor();
    await shoot("waiting");
    interrupted.state = "complete";
    await page.evaluate(() => dispatchEvent(new Event("online")));
    await page.getByText("The sender has finished").waitFor();
    await shoot("waited");
    await page.goto(line.over(link).replace("thl_", "thl_x"));
    await page.getByRole("alert").waitFor();
    await shoot("dead-link");
    assert.deepEqual(complaints, []);
  });
}

/** What of the page's words cannot be read: names of files of which next to nothing is there, text that did not grow with the rest, what
 * is beyond an edge. */
function cutOff(): string[] {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const faults: string[] = [];
  for (const name of document.querySelectorAll(".row .text")) {
    if (name.clientWidth < Math.min(name.scrollWidth, 4 * rem)) faults.push(`${name.textContent}: ${name.clientWidth} pixels`);
  }
  for (const element of document.querySelectorAll("h1, h2, p, a, button, label, input, select, dd, dt, .chip, .row .text, .row .size")) {
    const { left, right, width } = element.getBoundingClientRect();
    if (width === 0) continue;
    if (left < 0 || right > innerWidth) faults.push(`${element.textContent}: from ${left} to ${right}`);
    if (parseFloat(getComputedStyle(element).fontSize) < 0.75 * rem) faults.push(`${element.textContent}: small`);
  }
  return faults;
}
