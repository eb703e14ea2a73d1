// What the recipients' page does when saving into a folder, or looking at what there is, goes wrong.
import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import type { Page, Route } from "playwright-core";
import { scratch, write } from "./files";
import { depotInMemory } from "./in_memory";
import { answerFolderPicker, arrived, busyTabs, savedListing, signIn, startSending } from "./steps";

/** Five large files of two blocks each. */
const LARGE = Object.fromEntries(Array.from({ length: 5 }, (_, at) => [`set/${at}.raw`, 6_000_000]));

/** A transfer, with the page at its link. */
async function setUp(t: TestContext, files: Record<string, number> = LARGE) {
  const folder = await scratch(t);
  const { depot, context, page, complaints } = await depotInMemory(t);
  await write(folder, files);
  await answerFolderPicker(page);
  await signIn(page, depot);
  await startSending(page, [join(folder, "set")]);
  const link = await arrived(page);
  await open(page, link);
  return { depot, context, page, complaints, link, folder: join(folder, "set") };
}

async function open(page: Page, link: string): Promise<void> {
  await page.goto(link);
  await page.getByRole("heading", { name: "set", exact: true }).waitFor();
}

/** Requests for files' bytes, from now on. */
function asked(page: Page): string[] {
  const urls: string[] = [];
  page.on("request", (request) => /\/(bytes|files)\//.test(request.url()) && urls.push(request.url()));
  return urls;
}

/** Makes the drive that is saved to one that can be unplugged, by `unplugged` in the page. */
async function saveToDrive(page: Page): Promise<void> {
  await page.evaluate(() => {
    const state = Object.assign(window, { unplugged: false });
    const gone = () => new DOMException("A requested file or directory could not be found.", "NotFoundError");
    const onDrive = <T extends object>(handle: T): T =>
      new Proxy(handle, {
        get: (target, name) => {
          const value: unknown = Reflect.get(target, name);
          if (typeof value !== "function") return value;
          if (name === "keys") {
            return async function* () {
              if (state.unplugged) throw gone();
              yield* value.call(target);
            };
          }
          return async (...given: unknown[]) => {
            if (state.unplugged) throw gone();
            const answer: unknown = await value.apply(target, given);
            return answer instanceof FileSystemHandle || answer instanceof WritableStream ? onDrive(answer) : answer;
          };
        },
      });
    Object.assign(window, { showDirectoryPicker: async () => onDrive(await navigator.storage.getDirectory()) });
  });
}

test("a folder that is gone ends the saving, and nothing more is fetched for it", async (t) => {
  const { page, complaints } = await setUp(t);
  await saveToDrive(page);
  const urls = asked(page);
  await page.route(/\/files\//, async (route) => {
    await page.evaluate(() => Object.assign(window, { unplugged: true }));
    await route.continue();
  });
  await page.getByRole("button", { name: "Save into a folder" }).click();
  const alert = page.getByRole("alert");
  await alert.getByText("The folder is gone: connect its drive again, or choose another.").waitFor();
  await alert.getByText("goes on from there").waitFor();
  await page.locator(".status", { hasText: "Stopped" }).waitFor();
  assert.equal(await page.getByText("not saved").count(), 0);
  assert.ok(urls.length <= 4, `${urls.length} requests`);
  assert.deepEqual(complaints, []);
});

/** Begins to save a file of which nothing comes, and opens the same link in another tab. */
async function setUpTabs(t: TestContext, siloed = false) {
  const { context, page, link } = await setUp(t, { "set/movie": 6_000_000 });
  const other = await context.newPage();
  await answerFolderPicker(other);
  for (const tab of [page, other]) {
    // As a browser does that does not know how to keep two from writing to the same file.
    if (siloed) {
      await tab.addInitScript(() => {
        const create = FileSystemFileHandle.prototype.createWritable;
        FileSystemFileHandle.prototype.createWritable = function (options) {
          return create.call(this, { ...options, mode: "siloed" });
        };
      });
    }
    await tab.goto("about:blank");
    await open(tab, link);
  }
  const held: (() => void)[] = [];
  let opened = () => {};
  const isOpen = new Promise<void>((resolve) => (opened = resolve));
  await page.route(/\/files\//, (route) => {
    held.push(() => void route.continue());
    opened();
  });
  await page.getByRole("button", { name: "Save into a folder" }).click();
  await isOpen;
  await other.getByRole("button", { name: "Save into a folder" }).click();
  return { page, other, release: () => held.forEach((goOn) => goOn()) };
}

test("of two tabs that save the same file the second is refused, and the first gets it", async (t) => {
  const { page, other, release } = await setUpTabs(t);
  await other.getByText("set/movie: It cannot be written to: close it where it is open, then save again.").waitFor();
  assert.ok("set/movie" in (await savedListing(page)), "it is not taken away");
  release();
  await page.getByText("1 file received and verified").waitFor();
});

test("where a browser lets two tabs write to the same file, what one has saved outlives the other's end", async (t) => {
  const { page, other } = await setUpTabs(t, true);
  await other.getByText("1 file received and verified").waitFor();
  const { "set/movie": movie } = await savedListing(other);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Close" }).click();
  assert.deepEqual(await savedListing(other), { "set/": "", "set/movie": movie });
});

test("a tab that saves while another sends leaves it its share of the browser's connections", async (t) => {
  const { depot, context, page, folder } = await setUp(t);
  const sending = await context.newPage();
  depot.onPut = () => true;
  await signIn(sending, { page: `${depot.url}/` });
  await startSending(sending, [folder], "the study");
  await sending.getByRole("heading", { name: "the study" }).waitFor();
  await busyTabs(page, 1);
  const waiting: Route[] = [];
  await page.route(/\/(bytes|files)\//, (route) => void waiting.push(route));
  await page.getByRole("button", { name: "Save into a folder" }).click();
  // One for each file.
  for (const together of [2, 2, 1]) {
    while (waiting.length < together) await page.waitForTimeout(20);
    // What the page does before it asks for a file: another one that it was about to ask for is here before this is.
    await page.evaluate(async () => {
      const file = await (await navigator.storage.getDirectory()).getFileHandle("later", { create: true });
      await (await file.createWritable()).abort();
      await navigator.locks.query();
      await fetch("/api/v1/session");
    });
    assert.equal(waiting.length, together);
    await Promise.all(waiting.splice(0).map((route) => route.continue()));
  }
  await page.getByText("5 files received and verified").waitFor();
});

test("a tab that asks before it saves takes none of the browser's connections from others", async (t) => {
  const { page } = await setUp(t, { "set/a.raw": 6_000_000 });
  await page.evaluate(async () => {
    const set = await (await navigator.storage.getDirectory()).getDirectoryHandle("set", { create: true });
    const stream = await (await set.getFileHandle("a.raw", { create: true })).createWritable();
    await stream.write("mine");
    await stream.close();
  });
  await page.route(/\/files\//, async (route) => {
    await busyTabs(page, 1);
    await route.continue();
  });
  await page.getByRole("button", { name: "Save into a folder" }).click();
  const replace = page.getByRole("button", { name: "Replace it" });
  await replace.waitFor();
  await busyTabs(page, 0);
  await replace.click();
  await page.getByText("1 file received and verified").waitFor();
  await busyTabs(page, 0);
});

test("a file that cannot be made fails alone, and none of it is fetched", async (t) => {
  const { page, complaints } = await setUp(t);
  await page.evaluate(() => {
    const get = FileSystemDirectoryHandle.prototype.getFileHandle;
    FileSystemDirectoryHandle.prototype.getFileHandle = function (name, options) {
      if (name === "1.raw" && options?.create) return Promise.reject(new DOMException("It is not to be.", "NotFoundError"));
      return get.call(this, name, options);
    };
  });
  const urls = asked(page);
  await page.getByRole("button", { name: "Save into a folder" }).click();
  await page.getByText("4 files received and verified").waitFor();
  await page.locator(".notice", { hasText: "1 item not saved" }).waitFor();
  assert.equal(urls.length, 4);
  assert.deepEqual(complaints, []);
});

test("why a file cannot be written is said in words for people, and not in the browser's own", async (t) => {
  const { page } = await setUp(t, { "set/locked": 10, "set/setup.exe": 10, "set/odd": 10 });
  await page.evaluate(() => {
    const names: Record<string, string> = { locked: "NoModificationAllowedError", "setup.exe": "AbortError", odd: "InvalidStateError" };
    FileSystemFileHandle.prototype.createWritable = function () {
      return Promise.reject(new DOMException("The state of the underlying filesystem.", names[this.name]));
    };
  });
  await page.getByRole("button", { name: "Save into a folder" }).click();
  const failures = page.locator(".notice", { hasText: "3 items not saved" });
  await failures.getByText("set/locked: It cannot be written to: close it where it is open, then save again.").waitFor();
  await failures.getByText("set/setup.exe: The browser does not let such a file be saved here: download it.").waitFor();
  await failures.getByText("set/odd: This device could not write it: save again, or download it.").waitFor();
});

test("a hash worker whose script does not arrive, as the network is lost, is started again, and nothing is asked for twice", async (t) => {
  const { page, link } = await setUp(t);
  await page.goto("about:blank");
  let lost = 0;
  await page.route(/worker/, (route) => (lost++ < 5 ? route.abort("connectionreset") : route.continue()));
  await page.goto(link);
  const urls = asked(page);
  await page.getByRole("button", { name: "Save into a folder" }).click();
  await page.getByText("5 files received and verified").waitFor();
  assert.ok(lost > 5, `${lost} loads`);
  assert.equal(new Set(urls).size, urls.length);
});

test("saving is stopped, too, while the hash worker's script does not come", async (t) => {
  const { page, link } = await setUp(t);
  await page.goto("about:blank");
  let held = 0;
  await page.route(/worker/, () => void held++);
  await page.goto(link);
  await page.getByRole("button", { name: "Save into a folder" }).click();
  await page.getByText("Receiving and verifying").waitFor();
  while (held === 0) await page.waitForTimeout(20);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".status", { hasText: "Stopped" }).waitFor();
});

const SMALL = { "set/one": 1000, "set/two": 2000 };

for (const [what, files] of Object.entries({ large: LARGE, small: SMALL })) {
  test(`where the hash worker does not start, as the depot was upgraded, saving ${what} files stops and says so`, async (t) => {
    const { page, link } = await setUp(t, files);
    await page.route(/worker/, (route) => route.fulfill({ status: 404 }));
    await page.goto("about:blank");
    await page.goto(link);
    const urls = asked(page);
    await page.getByRole("button", { name: "Save into a folder" }).click();
    const alert = page.getByRole("alert");
    await alert.getByText("The page cannot start what computes hashes: reload it.").waitFor();
    assert.equal(await page.getByText("not saved").count(), 0);
    assert.ok(urls.length <= 4, `${urls.length} requests`);
  });
}

test("a tab that saves gives connections back as soon as another one needs some, and goes on", async (t) => {
  const { context, page, link } = await setUp(t);
  const held: Route[] = [];
  await page.route(/\/files\//, (route) => void held.push(route));
  let calledOff = 0;
  page.on("requestfailed", () => calledOff++);
  await page.getByRole("button", { name: "Save into a folder" }).click();
  while (held.length < 4) await page.waitForTimeout(20);
  const other = await context.newPage();
  await open(other, link);
  await other.evaluate(() => void navigator.locks.request("terahaul-busy", { mode: "shared" }, () => new Promise(() => {})));
  while (calledOff < 2) await page.waitForTimeout(20);
  await page.unroute(/\/files\//);
  for (const route of held) await route.continue().catch(() => {});
  await page.getByText("5 files received and verified").waitFor();
  assert.equal(calledOff, 2);
});

test("whoever is not signed in any more is told that saving again goes on", async (t) => {
  const { page, link } = await setUp(t);
  await page.goto("about:blank");
  await page.goto(link.split("#")[0]!);
  const refused = { code: "unauthorized", message: "Sign in first.", retry: false };
  await page.route(/\/files\//, (route) => route.fulfill({ status: 401, json: { error: refused } }));
  await page.getByRole("button", { name: "Save into a folder" }).click();
  const alert = page.getByRole("alert");
  await alert.getByRole("link", { name: "sign in" }).waitFor();
  await alert.getByText("goes on from there").waitFor();
});

test("where the link's cookie has ended since it was opened, saving goes on all the same", async (t) => {
  const { page } = await setUp(t);
  await page.context().clearCookies();
  await page.getByRole("button", { name: "Save into a folder" }).click();
  await page.getByText("5 files received and verified").waitFor();
});

test("where the browser keeps no cookie, a link and signing in say so", async (t) => {
  const { depot, page, link } = await setUp(t);
  await page.context().clearCookies();
  depot.givesCookies = false;
  const alert = page.getByRole("alert");
  await page.getByRole("button", { name: "Save into a folder" }).click();
  await alert.getByText("does not keep the depot's cookie").waitFor();
  await page.goto("about:blank");
  await page.goto(link);
  await alert.getByText("does not keep the depot's cookie").waitFor();
  await page.goto(`${depot.url}/`);
  await page.getByLabel("Access token").fill(depot.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator(".notice").getByText("does not keep the depot's cookie").waitFor();
});

test("a transfer that is gone when it is saved is said to be, and nothing of it is offered any more", async (t) => {
  const { depot, page } = await setUp(t);
  const save = page.getByRole("button", { name: "Save into a folder" });
  // Once its list is read.
  await save.and(page.locator(":not([aria-disabled=true])")).waitFor();
  depot.transfers.clear();
  await save.click();
  const alert = page.getByRole("alert");
  await alert.waitFor();
  assert.match((await alert.allInnerTexts()).join(), /^This transfer is no longer here: it was deleted, or it expired\. Ask the sender to send it again\.\s*$/);
  const offered = () => page.locator("main").getByRole("link").or(page.locator("main").getByRole("button", { name: /Save|Download/ })).count();
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: "Close" }).waitFor({ state: "hidden" });
  assert.deepEqual([await alert.count(), await offered()], [1, 0]);
  await alert.getByText("no longer here").waitFor();
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), "H1");
});

const NOT_GONE = [
  ["the depot while its sender opens it again", 404, JSON.stringify({ error: { code: "not_found", message: "there is no such transfer", retry: false } }), "its sender may be adding to it"],
  ["a server on the way, which finds nothing", 404, "<html>Not Found</html>", "answered with status 404: try again"],
  ["a server on the way, which forbids it", 403, "<html>Forbidden</html>", "answered with status 403: try again"],
] as const;

for (const [who, status, body, said] of NOT_GONE) {
  test(`a transfer of which a file is refused by ${who} is not said to be gone, and saving it again goes on`, async (t) => {
    const { page } = await setUp(t);
    await page.route(/\/files\//, (route) => route.fulfill({ status, body }));
    const save = page.getByRole("button", { name: "Save into a folder" });
    await save.click();
    const alert = page.getByRole("alert");
    await alert.getByText(said).waitFor();
    await alert.getByText("goes on from there").waitFor();
    assert.equal(await page.getByText("deleted").count(), 0);
    await page.getByRole("button", { name: "Close" }).click();
    await page.unroute(/\/files\//);
    await save.click();
    await page.getByText("5 files received and verified").waitFor();
  });
}

test("a file that failed twice is named once, and one that came in the end is not", async (t) => {
  const { depot, page, link } = await setUp(t, { "set/one": 10 });
  const transfer = depot.transfers.values().next().value!;
  const [sent] = transfer.entries.filter(({ kind }) => kind === "file");
  const failed = { ...sent!, state: "failed", reason: "It is gone." } as const;
  transfer.entries.push(
    { ...failed, entry: 2, superseded: true },
    { ...failed, entry: 3, path: "set/x", superseded: true },
    { ...failed, entry: 4, path: "set/x" },
  );
  await page.goto("about:blank");
  await page.goto(link);
  const notice = page.locator(".notice");
  await notice.waitFor();
  assert.match((await notice.allInnerTexts()).join(), /^1 file did not arrive:\s*set\/x: It is gone\.$/);
});

test("names of what failed are not read out: the first failure is said, and at the end how many there were", async (t) => {
  const { page } = await setUp(t);
  await page.evaluate(() => {
    FileSystemDirectoryHandle.prototype.getFileHandle = () => Promise.reject(new DOMException("It is not to be.", "NotFoundError"));
    const said: string[] = [];
    const region = document.getElementById("announcer")!;
    new MutationObserver(() => said.push(region.textContent)).observe(region, { childList: true });
    Object.assign(window, { said });
  });
  await page.getByRole("button", { name: "Save into a folder" }).click();
  await page.locator(".notice", { hasText: "5 items not saved:" }).waitFor();
  assert.equal(await page.locator(".notice li").count(), 5);
  assert.equal(await page.locator("[role=alert] li, [role=status] li").count(), 0);
  assert.equal(await page.getByRole("alert").count(), 0);
  const heard = () => page.evaluate(() => (window as unknown as { said: string[] }).said);
  while (!(await heard()).includes("5 items not saved")) await page.waitForTimeout(20);
  const said = await heard();
  const failures = said.filter((text) => text.includes("not saved"));
  assert.ok(failures.length <= 2 && failures.at(-1) === "5 items not saved", JSON.stringify(said));
});
