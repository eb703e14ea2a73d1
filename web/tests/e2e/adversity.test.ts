// What the page does when something goes wrong. The depot here is the one in memory, which can be told to misbehave.
import assert from "node:assert/strict";
import { appendFileSync, rmSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { Page, Route } from "playwright-core";
import type { FakeDepot } from "../fake/depot";
import { drop } from "./browser";
import { listing, write } from "./files";
import { onlyTransfer, setUp } from "./rig";
import { answerFolderPicker, arrived, isUnderWay, savedListing, sendPart, share, startSending } from "./steps";

const MiB = 1024 * 1024;
/** Of the folder: the last one is that of the small files. */
const BLOCKS = 16;

test("a lost network is waited out", async (t) => {
  const { depot, line, page, folder } = await setUp(t, 30e6);
  await sendPart(page, line, 35e6, [folder]);
  line.cut();
  await page.getByText("Connection lost").waitFor();
  await line.refusal();
  line.mend();
  await arrived(page);
  assert.ok(depot.taken <= 60_003_000 + 3 * 16 * MiB, "only what was on its way is sent again");
});

test("the title of a hidden tab says that the connection is lost, and in the end that all is sent", async (t) => {
  const { line, page, folder } = await setUp(t, 30e6);
  await sendPart(page, line, 35e6, [folder]);
  // As in a tab behind another one. Headless tabs are never hidden.
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { get: () => true });
    window.requestAnimationFrame = () => 1;
    document.dispatchEvent(new Event("visibilitychange"));
  });
  const title = (is: string) => page.waitForFunction((wanted) => document.title === wanted, is, { polling: 100 });
  line.cut();
  await title("Connection lost · set · Terahaul");
  line.mend();
  await title("Sent · set · Terahaul");
});

test("what is under way and not answered is not said to be sent", { timeout: 60_000 }, async (t) => {
  const { depot, page, folder } = await setUp(t);
  const answers: (() => void)[] = [];
  depot.delayed = (answer) => void answers.push(answer);
  depot.impatient = true;
  await startSending(page, [folder]);
  const status = page.getByRole("status").getByText("Waiting for the depot's answers");
  // All that fits under way is there at last, and of what was answered nothing is missing but the last answers.
  while (!(await status.isVisible())) {
    if (onlyTransfer(depot) && onlyTransfer(depot).blocks.size < BLOCKS) answers.shift()?.();
    await page.waitForTimeout(20);
  }
  assert.equal(await share(page), 99);
  assert.equal(await page.getByRole("progressbar", { name: "Whole transfer" }).getAttribute("aria-valuenow"), "99");
  assert.equal(await page.locator("dd").nth(2).textContent(), "–");
  depot.delayed = null;
  answers.forEach((answer) => answer());
  await arrived(page);
});

test("a transfer is saved over a line that is cut again and again: what came is kept, shown, and not asked for again", async (t) => {
  const { line, page, folder } = await setUp(t);
  await answerFolderPicker(page);
  await startSending(page, [folder]);
  await page.goto(line.over(await arrived(page)));
  await page.getByRole("heading", { name: "set", exact: true }).waitFor();
  const before = line.carried;
  // Requests are of 16 MiB: none of them would ever be whole.
  const cut = () => line.cutAfter(8e6);
  let broken = cut();
  await page.getByRole("button", { name: "Save into a folder" }).click();
  for (let shown = 0, cuts = 0; cuts < 6; cuts++) {
    await broken;
    await page.waitForFunction((before) => Number(document.querySelector(".share span")?.textContent) > before, shown);
    shown = await share(page);
    await page.waitForFunction(() => document.title === "Connection lost · set · Terahaul");
    await page.getByText("Connection lost").waitFor();
    assert.deepEqual((await page.locator("dd").allTextContents()).slice(1), ["–", "–"], "nothing comes");
    if (cuts < 5) broken = cut();
    line.mend();
  }
  await page.getByText("4 files received and verified").waitFor();
  await page.waitForFunction(() => document.title === "Received · set · Terahaul");
  const saved = await savedListing(page);
  for (const [path, hash] of Object.entries(await listing(folder))) if (hash) assert.equal(saved[`set/${path}`], hash, path);
  assert.ok(line.carried - before < 60_003_000 + 6 * 4 * MiB, `${line.carried - before} bytes carried`);
});

test("of a large file that is not what the list says nothing counts as received, however much of it came right", async (t) => {
  const { page, folder } = await setUp(t);
  await answerFolderPicker(page);
  await startSending(page, [folder]);
  await page.goto(await arrived(page));
  let damaged = false;
  await page.route(/\/files\//, async (route) => {
    if (damaged || !route.request().headers()["range"]?.startsWith("bytes=0-")) return route.continue();
    damaged = true;
    const response = await route.fetch();
    const body = await response.body();
    body[5_000_000]! ^= 1;
    await route.fulfill({ response, body });
  });
  await page.getByRole("button", { name: "Save into a folder" }).click();
  await page.getByText("3 files received and verified").waitFor();
  await page.getByText("Its content does not match its BLAKE3 value.").waitFor();
  await page.waitForFunction(() => document.title === "Partly received · set · Terahaul");
  const shown = await share(page);
  assert.ok([33, 66].includes(shown), `${shown} %, of files of 40 and 20 MB`);
});

test("what a depot says is damaged is named, and what it is packed with is saved", { timeout: 60_000 }, async (t) => {
  const { page, folder } = await setUp(t);
  await mkdir(join(folder, "few"));
  for (let number = 0; number < 9; number++) await writeFile(join(folder, `few/${number}`), `${number}`.repeat(100));
  await answerFolderPicker(page);
  await startSending(page, [folder]);
  await page.goto(await arrived(page));
  // Of the files of 100 bytes the fifth, wherever it lies.
  let damaged = -1;
  await page.route(/\/bytes\//, async (route) => {
    const url = new URL(route.request().url());
    const address = Number(url.pathname.split("/").pop());
    const length = Number(url.searchParams.get("length"));
    if (damaged < 0) damaged = address + (await (await route.fetch()).body()).indexOf("4".repeat(100));
    if (damaged < address || damaged >= address + length) return route.continue();
    const error = { code: "damaged", message: "What is stored of it is damaged.", retry: false };
    await route.fulfill({ status: 500, contentType: "application/json", body: JSON.stringify({ error }) });
  });
  await page.getByRole("button", { name: "Save into a folder" }).click();
  await page.getByText("What is stored of it is damaged.").waitFor();
  await page.waitForFunction(() => document.title === "Partly received · set · Terahaul");
  const [saved, sent] = [await savedListing(page), await listing(folder)];
  const missing = Object.keys(sent).filter((path) => sent[path] && saved[`set/${path}`] !== sent[path]);
  assert.deepEqual(missing, ["few/4"]);
});

test("a hash worker whose script does not arrive at first is started again", async (t) => {
  const { page, folder } = await setUp(t);
  let refused = 0;
  await page.route(/worker/, (route) => (refused++ < 2 ? route.abort() : route.continue()));
  await startSending(page, [folder]);
  await arrived(page);
  assert.ok(refused > 2, `${refused} loads`);
});

test("a refusal is shown with its reason, and can be tried again", async (t) => {
  const { depot, page, folder } = await setUp(t);
  let full = true;
  depot.onPut = (request, response) => {
    if (!full) return false;
    request.resume();
    request.on("end", () => {
      const error = { code: "quota_exceeded", message: "The token's quota of 50 MB is used up. Delete transfers or ask for more.", retry: false };
      response.writeHead(413, { "Content-Type": "application/json" }).end(JSON.stringify({ error }));
    });
    return true;
  };
  await startSending(page, [folder]);
  await page.getByText("quota of 50 MB is used up").waitFor();
  full = false;
  await page.getByRole("button", { name: "Try again" }).click();
  await arrived(page);
  assert.equal(onlyTransfer(depot).state, "complete");
});

test("a transfer that was deleted while the connection was lost is said to be gone, and can be left", async (t) => {
  const { depot, line, page, folder } = await setUp(t, 30e6);
  await sendPart(page, line, 35e6, [folder]);
  line.cut();
  await page.getByText("Connection lost").waitFor();
  depot.transfers.clear();
  line.mend();
  await page.getByText("There is no such transfer. It may have been deleted.").waitFor();
  await page.getByRole("status").getByText("Stopped", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("heading", { name: "Transfers" }).waitFor();
});

test("what the depot answers is said while it is asked again: to finish, to take more", async (t) => {
  const { page, folder } = await setUp(t);
  const busy = (message: string) => ({ status: 503, json: { error: { code: "stopping", message, retry: true } } });
  await page.route(/finish\?wait/, (route) => route.abort());
  await page.route(/\/bytes\//, (route) => route.fulfill(busy("the disk is busy")));
  await page.route(/finish$/, (route) => route.fulfill(busy("the depot is stopping: try again in a moment.")));
  await startSending(page, [folder]);
  const status = page.getByRole("status");
  await status.getByText("The depot answers: the disk is busy. Trying again…").waitFor();
  await page.unroute(/\/bytes\//);
  await status.getByText("The depot answers: the depot is stopping: try again in a moment. Trying again…").waitFor();
  await page.unroute(/finish$/);
  await arrived(page);
});

test("a session that ends half-way is signed in to again, and the upload goes on", async (t) => {
  const { depot, line, page, folder } = await setUp(t, 30e6);
  await sendPart(page, line, 35e6, [folder], "the set");
  // All that was asked under the session ends with it: what a depot has let in it may still answer, the end of the transfer too.
  line.cut();
  depot.endSessions();
  line.mend();
  await page.getByText("to continue sending “the set”").waitFor();
  await page.getByLabel("Access token").fill(depot.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await arrived(page);
  assert.ok(depot.taken <= 60_003_000 + 3 * 16 * MiB, "only what was on its way is sent again");
});

test("an address that signs in works in a page that is open, and a second time", async (t) => {
  const { depot, page } = await setUp(t);
  depot.endSessions();
  await page.reload();
  await page.getByLabel("Access token").waitFor();
  const address = new URL(depot.page);
  await page.evaluate((hash) => (location.hash = hash), address.hash);
  await page.getByRole("heading", { name: "Send", exact: true }).waitFor();
  depot.codeWorks = false;
  const here = new URL(page.url());
  here.hash = address.hash;
  await page.goto("about:blank");
  await page.goto(here.href);
  await page.getByRole("heading", { name: "Send", exact: true }).waitFor();
  assert.equal(new URL(page.url()).hash, "#/send", "the code is not in the history");
});

test("what was chosen is still chosen after a look at the transfers", async (t) => {
  const { page, folder } = await setUp(t);
  await drop(page, [folder]);
  await page.getByLabel("Name").fill("chosen before");
  await page.getByRole("link", { name: "Transfers" }).click();
  await page.getByText("Nothing here yet").waitFor();
  await page.getByRole("link", { name: "Send", exact: true }).click();
  assert.equal(await page.getByLabel("Name").inputValue(), "chosen before");
  await page.getByRole("button", { name: /^Send 4 files, / }).waitFor();
});

test("going on with a transfer has an address: what was chosen for it is there after a look elsewhere, and it after a reload", async (t) => {
  const { depot, page, folder } = await setUp(t);
  depot.create("the study", 7);
  await page.getByRole("link", { name: "Transfers" }).click();
  await page.getByRole("button", { name: "Resume" }).click();
  const heading = page.getByRole("heading", { name: "Resume sending" });
  await heading.waitFor();
  await drop(page, [folder]);
  const goOn = page.getByRole("button", { name: "Resume with 4 files" });
  await goOn.waitFor();
  await page.getByRole("link", { name: "Transfers" }).click();
  await page.getByRole("heading", { name: "Transfers" }).waitFor();
  await page.goBack();
  await goOn.waitFor();
  await page.reload();
  await heading.waitFor();
  await page.getByText("the study").waitFor();
  await drop(page, [folder]);
  await goOn.click();
  await arrived(page);
  assert.equal(onlyTransfer(depot).state, "complete");
  // What was begun is not begun again by whoever goes back.
  await page.goBack();
  await page.getByRole("heading", { name: "Transfers" }).waitFor();
  await page.goto(page.url().replace(/#.*/, `#/resume/${onlyTransfer(depot).id}`));
  await page.getByText("is complete: nothing of it is left to send").waitFor();
});

test("whoever comes back to send is offered to go on with what is unfinished, with what he has chosen", async (t) => {
  const { depot, line, page, folder } = await setUp(t, 30e6);
  await sendPart(page, line, 35e6, [folder], "the study");
  line.cut();
  page.on("dialog", (dialog) => void dialog.accept());
  await page.goto("about:blank");
  line.mend();
  await page.goto(line.over(`${depot.url}/`));
  await page.getByText("“the study” is unfinished").waitFor();
  await drop(page, [folder]);
  await page.getByRole("button", { name: /^Send 4 files/ }).waitFor();
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await page.getByRole("button", { name: "Resume with 4 files" }).click();
  await arrived(page);
  assert.equal(depot.transfers.size, 1);
  await page.getByRole("button", { name: "Send something else" }).click();
  await page.getByText("Drop files").first().waitFor();
  assert.equal(await page.getByRole("button", { name: /^Send \d/ }).count(), 0, "what was chosen is sent");
  assert.equal(await page.getByText("is unfinished").count(), 0);
});

test("what has a name that a browser cannot read is left out and said, and does not lead round in circles", async (t) => {
  const { page, folder } = await setUp(t);
  const odd = Buffer.concat([Buffer.from(`${join(folder, "odd")}/M`), Buffer.from([0xfc]), Buffer.from("ller")]);
  await write(join(folder, "odd"), { "plain.txt": 10 });
  await mkdir(odd);
  await writeFile(Buffer.concat([odd, Buffer.from("/in it")]), "");
  await drop(page, [join(folder, "odd")]);
  await page.getByText("1 item in it cannot be read by a browser").waitFor();
  await page.getByRole("button", { name: "Send 1 file" }).waitFor();
});

test("one failing chunk is tried again alone", async (t) => {
  const { depot, page, folder } = await setUp(t);
  const times = new Map<number, number>();
  depot.onPut = (request, response, [first]) => {
    times.set(first!, (times.get(first!) ?? 0) + 1);
    if (first !== 0 || times.get(0)! > 2) return false;
    request.resume();
    request.on("end", () => response.writeHead(503).end());
    return true;
  };
  await startSending(page, [folder]);
  await arrived(page);
  assert.equal(times.get(0), 3);
  assert.ok(depot.taken < 60_003_000 + 9 * MiB);
});

test("a block that arrived damaged is noticed and sent again", async (t) => {
  const { depot, page, folder } = await setUp(t);
  let damaged = false;
  depot.onPut = (request, response, blocks) => {
    if (damaged || blocks.length !== 2) return false;
    damaged = true;
    request.resume();
    request.on("end", () => {
      response.end(JSON.stringify({ blocks: blocks.map((block) => ({ block, value: "00".repeat(32) })) }));
    });
    return true;
  };
  await startSending(page, [folder]);
  await arrived(page);
  assert.ok(damaged);
  assert.equal(onlyTransfer(depot).state, "complete");
});

test("what a restarted depot forgot is sent again before the end", async (t) => {
  const { depot, line, page, folder } = await setUp(t, 30e6);
  await sendPart(page, line, 48e6, [folder]);
  const { blocks } = onlyTransfer(depot);
  const forgotten = [...blocks.keys()].slice(0, 3);
  assert.equal(forgotten.length, 3);
  for (const block of forgotten) blocks.delete(block);
  line.mend();
  await arrived(page);
  assert.equal(onlyTransfer(depot).state, "complete");
});

/** The depot does not take the last large block before it has been asked to finish. */
function withholdUntilFinish(depot: FakeDepot): void {
  depot.gate = { block: BLOCKS - 2, until: new Promise((resolve) => (depot.onFinish = resolve)) };
}

test("finishing waits for the last requests, a block that is damaged in these included", async (t) => {
  const { depot, page, folder } = await setUp(t, 10e9, "chunk=4");
  withholdUntilFinish(depot);
  depot.damaged.add(BLOCKS - 2);
  await startSending(page, [folder]);
  await arrived(page);
  const [first, ...others] = depot.finishes;
  assert.ok(first && first.missing > 0 && first.wait > 0, JSON.stringify(depot.finishes));
  assert.deepEqual([others, depot.damaged.size], [[], 0]);
  assert.equal(onlyTransfer(depot).state, "complete");
});

test("a depot that does not wait is asked to finish again when it has everything", async (t) => {
  const { depot, page, folder } = await setUp(t);
  withholdUntilFinish(depot);
  depot.impatient = true;
  await startSending(page, [folder]);
  await arrived(page);
  assert.deepEqual(depot.finishes.map(({ missing, wait }) => [missing > 0, wait > 0]), [[true, true], [false, false]]);
});

test("a network that is lost while the depot waits to finish is waited out", async (t) => {
  const { depot, line, page, folder } = await setUp(t, 30e6);
  depot.onFinish = () => {
    depot.onFinish = () => {};
    line.cut();
  };
  await startSending(page, [folder]);
  await page.getByText("Connection lost").waitFor();
  line.mend();
  await arrived(page);
  assert.equal(onlyTransfer(depot).state, "complete");
});

test("a pause in the middle of the last requests loses nothing, though the depot finishes meanwhile", { timeout: 60_000 }, async (t) => {
  const { depot, page, folder } = await setUp(t, 10e9, "channels=2&chunk=4");
  // It has the bytes, and its answers to the last two requests, the second of them for two blocks, do not arrive before the page is paused.
  const answers: (() => void)[] = [];
  const hasAll = new Promise<void>((resolve) => {
    depot.delayed = (answer, blocks) => {
      if (blocks.every((block) => block < BLOCKS - 3)) answer();
      else if (answers.push(answer) === 2) resolve();
    };
  });
  // It would wait for them for five seconds, and is asked once while they are under way: in five seconds a busy machine may not be through.
  await page.route(/finish\?wait/, async (route) => {
    await hasAll;
    await route.continue();
  });
  await startSending(page, [folder]);
  while (onlyTransfer(depot)?.state !== "complete") await page.waitForTimeout(20);
  await page.getByRole("button", { name: "Pause" }).click();
  depot.delayed = null;
  answers.forEach((answer) => answer());
  await page.getByRole("button", { name: "Continue" }).click();
  await arrived(page);
});

test("a file that changes while it is sent fails alone and is named", async (t) => {
  // Three requests of one block: most of the folder has not been read when the first of them arrives.
  const { depot, page, folder } = await setUp(t, 10e9, "?channels=3&chunk=4");
  let changed = false;
  depot.onPut = () => {
    if (!changed) {
      appendFileSync(join(folder, "a.raw"), "grown");
      rmSync(join(folder, "small/one"));
    }
    changed = true;
    return false;
  };
  await startSending(page, [folder]);
  await arrived(page);
  const notice = page.locator(".notice");
  await notice.getByText("2 files could not be sent").waitFor();
  await notice.getByText("set/a.raw").waitFor();
  await notice.getByText("set/small/one").waitFor();
  const transfer = onlyTransfer(depot);
  assert.equal(transfer.state, "partial");
  const states = Object.fromEntries(transfer.entries.map(({ path, state }) => [path, state]));
  assert.deepEqual(
    [states["set/a.raw"], states["set/b.raw"], states["set/small/one"], states["set/small/two"]],
    ["failed", "complete", "failed", "complete"],
  );
});

/** MANY says how many: 100,000 in a soak, of which Chromium takes 40 s to make up the files and to clear them away. */
const MANY = Number(process.env["MANY"] ?? 25_000);
const SHOWN = MANY.toLocaleString("en");

/** Milliseconds for which the page's main thread may not stand still. What else the machine does may make it, but not each time. */
const FREEZE = 1500;
const RUNS = 3;

/** Returns the link, and how long the page's main thread stood still at most. */
async function sendMany(page: Page): Promise<{ link: string; gap: number }> {
  // Made in the page: choosing this many real files would test the disk.
  await page.locator("input[data-pick=files]").evaluate((input, length) => {
    const files = Array.from({ length }, (_, at) => {
      const file = new File([`content ${at}`], `file ${at}`);
      Object.defineProperty(file, "webkitRelativePath", { value: `many/folder ${at % 250}/file ${at}` });
      return file;
    });
    Object.defineProperty(input, "files", { value: files, configurable: true });
    input.dispatchEvent(new Event("change"));
  }, MANY);
  await page.getByRole("button", { name: `Send ${SHOWN} files` }).click();
  await page.evaluate(() => {
    let last = performance.now();
    Object.assign(window, { longestGap: 0 });
    setInterval(() => {
      const now = performance.now();
      Object.assign(window, { longestGap: Math.max((window as unknown as { longestGap: number }).longestGap, now - last) });
      last = now;
    }, 10);
  });
  const link = await arrived(page, 120_000);
  return { link, gap: await page.evaluate(() => (window as unknown as { longestGap: number }).longestGap) };
}

test(`${SHOWN} files are listed, sent and shown without freezing the page`, { timeout: RUNS * 180_000 }, async (t) => {
  const { depot, page } = await setUp(t);
  let link = "";
  let gap = Infinity;
  for (let run = 0; run < RUNS && gap >= FREEZE; run++) {
    if (run > 0) await page.reload();
    ({ link, gap } = await sendMany(page));
    t.diagnostic(`longest pause of the main thread while sending: ${Math.round(gap)} ms`);
  }
  assert.ok(gap < FREEZE, `${gap} ms`);
  assert.equal(onlyTransfer(depot).entries.length, MANY + 251);
  await page.goto(link);
  // "loading" being away proves nothing: it is not there yet either. The heading counts what is listed.
  await page.getByRole("heading", { name: `${SHOWN} files` }).waitFor({ timeout: 60_000 });
  await page.getByRole("treegrid").focus();
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("End");
  await page.getByRole("row", { name: `file ${MANY - 1}` }).waitFor();
  assert.ok((await page.getByRole("row").count()) < 60, "only visible rows exist");
});

test("the first chunks are read before the depot has answered where they go", async (t) => {
  const { depot, page, folder } = await setUp(t);
  await page.evaluate(() => {
    const post = Worker.prototype.postMessage as (this: Worker, message: unknown) => void;
    Worker.prototype.postMessage = function (message: unknown) {
      Object.assign(window, { reading: true });
      post.call(this, message);
    };
  });
  await page.route("**/api/v1/transfers", async (route) => {
    if (route.request().method() === "POST") await page.waitForFunction(() => "reading" in window);
    await route.continue();
  });
  await startSending(page, [folder]);
  await arrived(page);
  assert.equal(onlyTransfer(depot).state, "complete");
});

test("everything is read once, and on a slow line no more than a request ahead", async (t) => {
  const { depot, page, folder } = await setUp(t, 40e6, "channels=1&chunk=8");
  await page.evaluate(() => {
    const read: { ahead: number; bytes: number }[] = [];
    let handed = 0;
    let sent = 0;
    const post = Worker.prototype.postMessage as (this: Worker, message: { bytes: Blob }) => void;
    Worker.prototype.postMessage = function (message: { bytes: Blob }) {
      read.push({ ahead: handed - sent, bytes: message.bytes.size });
      handed += message.bytes.size;
      post.call(this, message);
    };
    const send = XMLHttpRequest.prototype.send;
    XMLHttpRequest.prototype.send = function (body) {
      const before = sent;
      this.upload.addEventListener("progress", ({ loaded }) => (sent = Math.max(sent, before + loaded)));
      send.call(this, body);
    };
    Object.assign(window, { read });
  });
  await startSending(page, [folder]);
  await arrived(page);
  const read = await page.evaluate(() => (window as unknown as { read: { ahead: number; bytes: number }[] }).read);
  assert.equal(read.reduce((sum, { bytes }) => sum + bytes, 0), onlyTransfer(depot).entries.reduce((sum, { size }) => sum + size, 0));
  assert.ok(read.length >= 4 && read.every(({ ahead, bytes }) => ahead <= 16 * MiB && bytes <= 8 * MiB), JSON.stringify(read));
});

test("what is done while a transfer is being begun counts: going on with another waits, and signing out sends nothing", async (t) => {
  const { depot, line, page, folder } = await setUp(t, 30e6);
  await sendPart(page, line, 35e6, [folder], "the study");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Keep for later" }).click();
  line.mend();
  await page.getByRole("link", { name: "Send", exact: true }).click();

  let answer = () => {};
  const answered = new Promise<void>((resolve) => (answer = resolve));
  await page.route("**/api/v1/transfers", async (route) => {
    if (route.request().method() !== "POST") return route.continue();
    const response = await route.fetch();
    await answered;
    await route.fulfill({ response });
  });
  await startSending(page, [folder.replace(/set$/, "set/small")]);
  await page.getByRole("link", { name: "Transfers" }).click();
  await page.locator("li", { hasText: "the study" }).getByRole("button", { name: "Resume" }).click();
  await drop(page, [folder]);
  const goOn = page.getByRole("button", { name: "Resume with 4 files" });
  await goOn.waitFor();
  assert.equal(await goOn.isDisabled(), true);

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Access token").waitFor();
  const begun = page.waitForResponse((answer) => answer.request().method() === "POST" && answer.url().endsWith("/transfers"));
  answer();
  assert.equal((await begun).ok(), true);
  await page.getByLabel("Access token").fill(depot.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Resume sending" }).waitFor();
  await page.getByRole("link", { name: "Send", exact: true }).click();
  await page.getByText("Drop files").first().waitFor();
  assert.equal([...depot.transfers.values()][1]!.blocks.size, 0);
});

test("signing out while something is sent is asked about first, and stops it only then", async (t) => {
  const { depot, page, folder } = await setUp(t);
  // It takes nothing, and does not say so.
  depot.onPut = () => true;
  await startSending(page, [folder], "the set");
  await isUnderWay(page);
  const signOut = page.getByRole("button", { name: "Sign out" });
  const dialog = page.getByRole("dialog");
  await signOut.click();
  await dialog.getByText("“the set” is still being sent").waitFor();
  await dialog.getByRole("button", { name: "Keep sending" }).click();
  await dialog.waitFor({ state: "hidden" });
  await page.getByRole("status").getByText("Sending", { exact: true }).waitFor();

  await page.route("**/api/v1/session", (route) => route.abort());
  await signOut.click();
  await dialog.getByRole("button", { name: "Sign out" }).click();
  await dialog.getByText("You may be signed out all the same").waitFor();
  await page.unroute("**/api/v1/session");
  await dialog.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Access token").waitFor();
  assert.equal(onlyTransfer(depot).state, "open");
});

test("what cannot be extended or deleted says so where it was asked for", async (t) => {
  const { page, folder } = await setUp(t);
  await startSending(page, [join(folder, "small")]);
  await arrived(page);
  await page.getByRole("link", { name: "Transfers" }).click();
  const error = { code: "forbidden", message: "the token may not", retry: false };
  const refuse = (route: Route) => route.fulfill({ status: 403, json: { error } });
  const lose = (route: Route) => route.abort();
  const dialog = page.getByRole("dialog");
  for (const [action, answer, said] of [
    ["Extend", refuse, "It was not extended: The token may not."],
    ["Delete", refuse, "It was not deleted: The token may not."],
    ["Extend", lose, "It may be kept for longer all the same"],
    ["Delete", lose, "It may be deleted all the same"],
  ] as const) {
    await page.route(/transfers\/\w+$/, answer);
    await page.getByRole("button", { name: action }).click();
    await dialog.getByRole("button", { name: action }).click();
    await dialog.getByRole("alert").getByText(said).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: action }).click();
    assert.equal(await dialog.getByRole("alert").count(), 0, "it is asked anew");
    await page.keyboard.press("Escape");
    await page.unroute(/transfers\/\w+$/);
  }
  await page.getByRole("button", { name: "Delete" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("Nothing here yet").waitFor();
});

test("whoever closes a question while the depot is asked calls that off, and is told what may have come of it", async (t) => {
  const { depot, page, folder } = await setUp(t);
  const dialog = page.getByRole("dialog");
  const unanswered = () => page.route(/api\/v1\/(session|transfers\/\w+)$/, () => {});
  /** Presses `action`, and while no answer comes `closes`: the question stays, and is closed the second time. */
  const callOff = async (action: string, closes: (() => Promise<void>) | string, said: string) => {
    const close = typeof closes === "string" ? () => dialog.getByRole("button", { name: closes }).click() : closes;
    const asked = page.waitForRequest(/api\/v1\/(session|transfers\/\w+)$/);
    await dialog.getByRole("button", { name: action }).click();
    await asked;
    await close();
    await dialog.getByRole("alert").getByText(said).waitFor();
    assert.equal(await dialog.getByRole("button", { name: action }).isEnabled(), true);
    await close();
    await dialog.waitFor({ state: "hidden" });
  };
  const escape = () => page.keyboard.press("Escape");

  depot.onPut = () => true;
  await startSending(page, [folder]);
  await page.getByRole("status").getByText("Sending", { exact: true }).waitFor();
  await unanswered();
  for (const close of ["Keep sending", escape]) {
    await page.getByRole("button", { name: "Cancel" }).click();
    await callOff("Delete", close, "It may be deleted all the same: sending it ends by itself then.");
    await page.getByRole("status").getByText("Sending", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await callOff("Sign out", close, "You may be signed out all the same");
  }
  await page.getByRole("button", { name: "Cancel" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  assert.equal(await dialog.getByRole("button", { name: "Keep for later" }).isDisabled(), true);
  await escape();
  await dialog.getByRole("alert").waitFor();
  await dialog.getByRole("button", { name: "Keep for later" }).click();
  await page.getByRole("heading", { name: "Transfers" }).waitFor();
  for (const close of [undefined, escape]) {
    await page.getByRole("button", { name: "Extend" }).click();
    await callOff("Extend", close ?? "Leave as it is", "It may be kept for longer all the same");
    await page.getByRole("button", { name: "Delete" }).click();
    await callOff("Delete", close ?? "Keep", "It may be deleted all the same");
  }
});

test("a list of transfers that did not come is asked for again: by a button, and when the device is online", async (t) => {
  const { depot, page } = await setUp(t);
  for (let at = 0; at < 60; at++) depot.create(`transfer ${at}`, 7);
  await page.context().setOffline(true);
  await page.getByRole("link", { name: "Transfers" }).click();
  const alert = page.getByRole("alert");
  await alert.waitFor();
  await page.context().setOffline(false);
  await page.getByRole("heading", { name: "transfer 59" }).waitFor();
  assert.equal(await alert.count(), 0);

  await page.route(/before=/, (route) => route.abort());
  await page.getByRole("button", { name: "Show more" }).click();
  await alert.waitFor();
  await page.unroute(/before=/);
  await alert.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("heading", { name: "transfer 0", exact: true }).waitFor();
  assert.equal(await page.locator(".transfer").count(), 60);
});

test("what could not be deleted is still sent", async (t) => {
  const { page, line, folder } = await setUp(t, 30e6);
  await sendPart(page, line, 20e6, [folder]);
  await page.route(/transfers\/\w+$/, (route) => route.abort());
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Cancel" }).click();
  await dialog.getByRole("button", { name: "Delete" }).click();
  await dialog.getByRole("alert").getByText("It may be deleted all the same").waitFor();
  await dialog.getByRole("button", { name: "Keep sending" }).click();
  await page.getByRole("status").getByText("Sending", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal(await dialog.getByRole("alert").count(), 0, "it is asked anew");
  await dialog.getByRole("button", { name: "Keep sending" }).click();
  line.mend();
  await arrived(page);
});

test("other files than those of the transfer are refused once, and not named as missing besides", async (t) => {
  const { line, page, folder } = await setUp(t, 30e6);
  await sendPart(page, line, 20e6, [folder]);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Keep for later" }).click();
  line.mend();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.locator("input[data-pick=files]").setInputFiles([{ name: "other", mimeType: "", buffer: Buffer.from("other") }]);
  const alert = page.getByRole("alert");
  await alert.waitFor();
  assert.match((await alert.allInnerTexts()).join(), /^None of these files is part of this transfer/);
  assert.equal(await alert.count(), 1);
});

test("another transfer is looked at beside the one that is being sent", async (t) => {
  const { depot, page, folder } = await setUp(t, 10e9, "channels=2");
  depot.create("the other", 7);
  // The browser has connections left for the rest.
  depot.onPut = () => true;
  await startSending(page, [folder], "the set");
  await isUnderWay(page);
  await page.getByRole("link", { name: "Transfers" }).click();
  const beside = page.waitForEvent("popup");
  await page.getByRole("link", { name: "the other" }).click();
  await (await beside).getByRole("heading", { name: "the other" }).waitFor();
  await page.getByRole("link", { name: "Show progress" }).click();
  await page.getByRole("heading", { name: "the set" }).waitFor();
});
