// Tabs and depots killed at random moments, by seed. TRIALS says how many (20 in a soak), SEED where to begin.
import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Page } from "playwright-core";
import { openBrowser, sentBytes } from "./browser";
import { type RunningDepot, haveReal, startReal } from "./depot";
import { atEnd, listing, scratch, write } from "./files";
import { Line } from "./line";
import { answerFolderPicker, arrived, savedListing, signInWithToken, startSending } from "./steps";

const TRIALS = Number(process.env["TRIALS"] ?? 3);
const SEED = Number(process.env["SEED"] ?? 1);

function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Half of the trials send mostly small files. */
function files(seed: number, draw: () => number): Record<string, number> {
  const small = seed % 2 === 0;
  const made: Record<string, number> = {};
  for (let at = 0; at < (small ? 1500 : 20); at++) made[`set/folder ${at % 7}/small ${at}`] = Math.floor(draw() * 40_000);
  for (let at = 0; at < (small ? 1 : 4); at++) made[`set/large ${at}`] = 8_000_000 + Math.floor(draw() * 20_000_000);
  return made;
}

for (let seed = SEED; seed < SEED + TRIALS; seed++) {
  test(`a killed ${["tab", "depot", "tab and depot"][seed % 3]}, seed ${seed}`, { skip: !haveReal, timeout: 180_000 }, async (t) => {
    const draw = random(seed);
    const folder = await scratch(t);
    await write(folder, files(seed, draw));
    const data = join(folder, "depot");
    let depot = await startReal(data);
    // The line keeps its address while depots come and go behind it.
    const line = await Line.to(depot, 25e6);
    const reached = { url: line.over(depot.url).replace(/\/$/, ""), token: depot.token };
    const browser = await openBrowser();
    atEnd(t, async () => {
      await browser.close();
      line.close();
      await depot.stop();
    });
    await answerFolderPicker(browser.page);
    await signInWithToken(browser.page, reached);
    await startSending(browser.page, [join(folder, "set")]);
    const share = draw() * 0.7;
    while ((await durableShare(depot)) < share) await browser.page.waitForTimeout(20);
    await browser.page.waitForTimeout(draw() * 500);
    const kills = ["tab", "depot", "tab and depot"][seed % 3]!;
    if (kills !== "depot") await crash(browser.page);
    if (kills !== "tab") {
      const stopped = depot.stop();
      // Somebody else may be given its port.
      line.cut();
      await stopped;
      await browser.page.waitForTimeout(draw() * 1500).catch(() => {});
      depot = line.depot = await startReal(data);
      line.mend();
    }
    const page = kills === "depot" ? browser.page : await resume(t, browser.context.newPage(), reached, folder);
    const link = await arrived(page, 120_000);
    await page.goto(line.over(link));
    await page.reload();
    await page.getByRole("button", { name: "Save into a folder" }).click();
    await page.getByText("files received and verified").waitFor({ timeout: 60_000 });
    const saved = Object.entries(await savedListing(page));
    const sent = Object.entries(await listing(join(folder, "set"))).map(([path, hash]) => [`set/${path}`, hash]);
    assert.deepEqual(saved.filter(([path]) => path !== "set/").sort(), sent.sort());
  });
}

async function crash(page: Page): Promise<void> {
  const crashed = page.waitForEvent("crash");
  await page.goto("chrome://crash").catch(() => {});
  await crashed;
}

/** Chooses the files again, and checks that nothing durable is sent a second time. */
async function resume(t: TestContext, opened: Promise<Page>, depot: Pick<RunningDepot, "url" | "token">, folder: string): Promise<Page> {
  const page = await opened;
  await answerFolderPicker(page);
  await page.goto(`${depot.url}/#/transfers`);
  const unfinished = page.getByRole("button", { name: "Resume" });
  await unfinished.or(page.getByText("Nothing here yet")).or(page.getByText("complete", { exact: true })).first().waitFor();
  if ((await unfinished.count()) === 0) {
    t.diagnostic("killed before the transfer was made, or after it was finished");
    await page.goto(`${depot.url}/#/send`);
    await startSending(page, [join(folder, "set")]);
    return page;
  }
  const { durable, bytes } = await page.evaluate(async () => {
    const { transfers } = (await (await fetch("/api/v1/transfers")).json()) as { transfers: { id: string; bytes: number; durable_bytes: number }[] };
    return { durable: transfers[0]!.durable_bytes, bytes: transfers[0]!.bytes };
  });
  await unfinished.click();
  await page.locator("input[data-pick=folder]").setInputFiles(join(folder, "set"));
  await page.getByRole("button", { name: /^Resume with/ }).click();
  await arrived(page, 120_000);
  const sent = await sentBytes(page);
  t.diagnostic(`${durable} of ${bytes} bytes were durable, ${sent} sent again`);
  assert.ok(sent <= Math.max(0, await total(page)) - durable, `${sent} bytes sent, ${durable} were durable`);
  return page;
}

/** How much of the only transfer is durable: 0 while there is none. */
async function durableShare(depot: Pick<RunningDepot, "url" | "token">): Promise<number> {
  const answer = await fetch(`${depot.url}/api/v1/transfers`, { headers: { Authorization: `Bearer ${depot.token}` } });
  const [transfer] = ((await answer.json()) as { transfers: { bytes: number; durable_bytes: number }[] }).transfers;
  return transfer && transfer.bytes > 0 ? transfer.durable_bytes / transfer.bytes : 0;
}

async function total(page: Page): Promise<number> {
  return page.evaluate(async () => {
    const { transfers } = (await (await fetch("/api/v1/transfers")).json()) as { transfers: { bytes: number }[] };
    return transfers[0]!.bytes;
  });
}
