// The page in a browser that does not let it compute hashes, as in Lockdown Mode.
import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { FakeDepot } from "../fake/depot";
import { drop, openBrowser } from "./browser";
import { atEnd, scratch, write } from "./files";
import { signIn, signInWithToken } from "./steps";

const FILE = { kind: "file", size: 10, mtime: 0, mtime_nanos: 0, mode: 0o644, state: "complete", address: 0 } as const;

/** A depot with a finished transfer of one file, and a folder to send. */
async function setUp(t: TestContext, options: Parameters<typeof openBrowser>[0] = {}) {
  const folder = await scratch(t);
  const depot = await FakeDepot.start();
  const { context, page, complaints, close } = await openBrowser(options);
  atEnd(t, async () => {
    await close();
    depot.close();
  });
  await write(folder, { "set/one": 1000, "set/two": 2000 });
  const sent = depot.create("study", 7);
  sent.entries.push({ ...FILE, entry: 0, path: "notes.txt" });
  sent.blocks.set(0, Buffer.from("ten bytes."));
  Object.assign(sent, { state: "complete", completed: sent.created });
  return { depot, context, page, complaints, folder: join(folder, "set"), link: `${depot.url}/t/${sent.id}#${sent.secret}` };
}

test("a browser without WebAssembly is told so before anything is sent or saved, and what to do", async (t) => {
  const { depot, page, complaints, link } = await setUp(t, { webAssembly: false });
  await signIn(page, depot);
  assert.equal(await page.evaluate(() => "WebAssembly" in window), false);
  const alert = page.getByRole("alert");
  await alert.getByText(/WebAssembly.*Allow it for this site.*command line/).waitFor();
  assert.equal(await page.getByRole("button", { name: "Choose files" }).count(), 0);

  // What has all arrived needs no hash.
  const open = depot.create("arrived", 7);
  open.entries.push({ ...FILE, entry: 0, path: "notes.txt", state: "pending" });
  open.blocks.set(0, Buffer.from("ten bytes."));
  await page.goto(`${depot.url}/#/resume/${open.id}`);
  await alert.getByText(/WebAssembly.*command line/).waitFor();
  await page.getByRole("button", { name: "Finish" }).click();
  await page.getByText("Sent, stored and verified").waitFor();

  await page.addInitScript(() => Object.assign(window, { showDirectoryPicker: () => Promise.reject(new Error("nobody is to be asked")) }));
  await page.goto(link);
  await page.getByRole("button", { name: "Save into a folder" }).click();
  await alert.getByText(/WebAssembly.*Allow it for this site.*download the zip/).waitFor();
  assert.equal(await page.getByText("Stopped").count(), 0);
  assert.deepEqual(complaints, []);
});

test("where WebAssembly turns out to be forbidden, that is said as files are chosen, and in place of saving", async (t) => {
  const { depot, context, page, folder, link } = await setUp(t);
  await context.route(/hash-worker/, async (route) => {
    // Not by way of the page, which may have left meanwhile.
    const script = await (await fetch(route.request().url())).text();
    const body = `WebAssembly.instantiate = () => Promise.reject(new WebAssembly.CompileError("forbidden"));${script}`;
    await route.fulfill({ contentType: "text/javascript", body }).catch(() => {});
  });
  await signIn(page, depot);
  await drop(page, [folder]);
  const alert = page.getByRole("alert");
  await alert.getByText(/WebAssembly.*command line/).waitFor();
  assert.equal(depot.transfers.size, 1);

  await page.addInitScript(() => Object.assign(window, { showDirectoryPicker: () => navigator.storage.getDirectory() }));
  await page.goto(link);
  await page.getByRole("button", { name: "Save into a folder" }).click();
  await alert.getByText(/WebAssembly.*download the zip\. *$/).waitFor();
});

test("what is sent before it is known that WebAssembly is forbidden is told so at once, and leaves nothing in the depot", async (t) => {
  const { depot, context, page, folder } = await setUp(t);
  let answer = () => {};
  const mayAnswer = new Promise<void>((resolve) => (answer = resolve));
  await context.route(/hash-worker/, async (route) => {
    await mayAnswer;
    await route.fulfill({ contentType: "text/javascript", body: `postMessage("no WebAssembly")` }).catch(() => {});
  });
  await page.route("**/api/v1/transfers", async (route) => {
    const made = await route.fetch();
    if (route.request().method() === "POST") answer();
    // Its answer does not come before the worker's.
    if (route.request().method() === "POST") await page.getByRole("alert").waitFor();
    await route.fulfill({ response: made }).catch(() => {});
  });
  await signIn(page, depot);
  await drop(page, [folder]);
  const removed = page.waitForResponse((response) => response.request().method() === "DELETE" && response.ok());
  await page.getByRole("button", { name: /^Send / }).click();
  await page.getByRole("alert").getByText(/WebAssembly.*command line/).waitFor();
  await removed;
  assert.equal(depot.transfers.size, 1);
});

test("a browser that lets the page start no worker is told so as files are chosen", async (t) => {
  const { depot, page, complaints, folder } = await setUp(t);
  await page.addInitScript(() => {
    window.Worker = class {
      constructor() {
        throw new DOMException("Access is denied.", "SecurityError");
      }
    } as unknown as typeof Worker;
  });
  await signInWithToken(page, depot);
  await drop(page, [folder]);
  await page.getByRole("alert").getByText(/worker.*command line/).waitFor();
  assert.equal(depot.transfers.size, 1);
  assert.deepEqual(complaints, []);
});
