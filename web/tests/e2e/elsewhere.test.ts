// The page without what Chromium alone has, or browsers give to secure contexts alone: as in Firefox and Safari.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { openBrowser } from "./browser";
import { haveReal, startDepot } from "./depot";
import { atEnd, content, listing, scratch, write } from "./files";
import { arrived, signIn, startSending } from "./steps";

test("where no folder can be saved to and nothing copied, a link is shown, files come singly or as a zip", { skip: !haveReal }, async (t) => {
  const folder = await scratch(t);
  const depot = await startDepot(join(folder, "depot"));
  const { page, complaints, close } = await openBrowser();
  atEnd(t, async () => {
    await close();
    await depot.stop();
  });
  await page.addInitScript(() => {
    Reflect.deleteProperty(window, "showDirectoryPicker");
    for (const name of ["locks", "clipboard", "storage", "connection", "userAgentData"]) Reflect.deleteProperty(Navigator.prototype, name);
    Reflect.deleteProperty(DataTransferItem.prototype, "getAsFileSystemHandle");
  });
  const source = join(folder, "source");
  await write(source, { "set/large.raw": 9_000_000, "set/frames/one": 1000, "set/none": 0 });
  await mkdir(join(source, "set/empty"));
  await signIn(page, depot);
  assert.deepEqual(await page.evaluate(() => ["showDirectoryPicker" in window, "locks" in navigator, "clipboard" in navigator]), [false, false, false]);
  await startSending(page, [join(source, "set")]);
  const link = await arrived(page);

  const asked = page.waitForEvent("dialog");
  const copying = page.getByRole("button", { name: "Copy link" }).click();
  const prompt = await asked;
  assert.deepEqual([prompt.type(), prompt.defaultValue()], ["prompt", link]);
  await prompt.dismiss();
  await copying;

  await page.goto(link);
  await page.getByRole("heading", { name: "3 files" }).waitFor();
  assert.equal(await page.getByRole("button", { name: "Save into a folder" }).count(), 0);
  const download = async (name: string) => {
    const begun = page.waitForEvent("download");
    await page.getByRole("link", { name }).click();
    return (await begun).path();
  };
  assert.deepEqual(await readFile(await download("Download large.raw")), content("set/large.raw", 9_000_000));
  execFileSync("python3", ["-m", "zipfile", "-e", await download("Download all as zip"), join(folder, "unzipped")]);
  assert.deepEqual(await listing(join(folder, "unzipped")), await listing(source));
  assert.deepEqual(complaints, []);
});
