// What the page does when it cannot learn at once who looks at it, or at what.
import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { scratch, write } from "./files";
import { depotInMemory } from "./in_memory";
import { arrived, signIn, startSending } from "./steps";

async function setUp(t: TestContext) {
  const { depot, page } = await depotInMemory(t);
  return { depot, page };
}

const busy = (message: string) => ({ status: 503, json: { error: { code: "stopping", message, retry: true } } });

test("where the page's own script does not come, that is said after some seconds; where it comes, nothing of that is left in any view", async (t) => {
  const { depot, page } = await setUp(t);
  const study = depot.create("the study", 7);
  const words = page.getByText("The page is still loading. If this stays, reload it.");
  const script = /assets\/page-.*\.js$/;
  await page.route(script, (route) => route.abort());
  await page.goto(depot.page);
  assert.equal(await words.count(), 1);
  /** As it is at the beginning of its delay, or after that. */
  const isVisible = async (seconds: "first" | "last") => {
    await words.evaluate((element, seconds) => {
      const [delayed] = element.getAnimations();
      if (seconds === "last") return delayed!.finish();
      delayed!.pause();
      delayed!.currentTime = 0;
    }, seconds);
    return words.isVisible();
  };
  await page.emulateMedia({ reducedMotion: "reduce" });
  assert.deepEqual([await isVisible("first"), await isVisible("last")], [false, true]);
  await page.emulateMedia({ reducedMotion: "no-preference" });
  await page.reload();
  assert.deepEqual([await isVisible("first"), await isVisible("last")], [false, true]);

  await page.unroute(script);
  await page.goto("about:blank");
  await signIn(page, depot);
  assert.equal(await words.count(), 0);
  await page.goto(`${depot.url}/t/${study.id}#${study.secret}`);
  await page.getByRole("heading", { name: "the study" }).waitFor();
  assert.equal(await words.count(), 0);
});

test("whether somebody is signed in is asked again until the depot says so", async (t) => {
  const { depot, page } = await setUp(t);
  await signIn(page, depot);
  let answers = false;
  await page.route("**/api/v1/session", (route) => (answers ? route.continue() : route.fulfill(busy("it is starting."))));
  await page.reload();
  await page.getByText("The depot answers: it is starting. Trying again…").waitFor();
  answers = true;
  await page.getByRole("heading", { name: "Send", exact: true }).waitFor();
});

test("a problem goes with what it was about: when somebody signs in, and with the view", async (t) => {
  const { depot, page } = await setUp(t);
  const odd = { status: 400, json: { error: { code: "odd", message: "This is odd.", retry: false } } };
  await page.route("**/api/v1/session", (route) => (route.request().method() === "GET" ? route.fulfill(odd) : route.continue()));
  await page.goto(depot.url);
  const alert = page.getByRole("alert");
  await alert.getByText("This is odd.").waitFor();
  await alert.getByRole("button", { name: "Try again" }).click();
  await alert.getByText("This is odd.").waitFor();
  await page.evaluate((hash) => (location.hash = hash), new URL(depot.page).hash);
  await page.getByRole("heading", { name: "Send", exact: true }).waitFor();
  await alert.waitFor({ state: "hidden" });

  await page.route("**/api/v1/session", (route) => route.abort());
  await page.getByRole("button", { name: "Sign out" }).click();
  await alert.getByText("The depot cannot be reached. Check the network connection. You may be signed out all the same").waitFor();
  await page.getByRole("link", { name: "Transfers" }).click();
  await page.getByText("Nothing here yet").waitFor();
  await alert.waitFor({ state: "hidden" });
});

test("an address that signs in does so when the network is back", async (t) => {
  const { depot, page } = await setUp(t);
  let reached = false;
  await page.route("**/api/v1/session", (route) => (reached ? route.continue() : route.abort()));
  await page.goto(depot.page);
  await page.getByText("Connection lost. Trying again…").waitFor();
  reached = true;
  await page.getByRole("heading", { name: "Send", exact: true }).waitFor();
});

test("a link is opened, and its list read, when the network is back", async (t) => {
  const { depot, page } = await setUp(t);
  const folder = await scratch(t);
  await write(folder, { "set/one": 10 });
  await signIn(page, depot);
  await startSending(page, [join(folder, "set")]);
  const link = await arrived(page);
  for (const path of [/\/open$/, /\/entries/]) {
    let reached = false;
    await page.route(path, (route) => (reached ? route.continue() : route.abort()));
    await page.goto("about:blank");
    await page.goto(link);
    await page.getByText("Connection lost. Trying again…").waitFor();
    reached = true;
    await page.getByRole("heading", { name: "1 file" }).waitFor();
    assert.equal(await page.getByText("Connection lost").count(), 0);
    await page.unroute(path);
  }
});

test("a link whose # was encoded on its way opens the transfer, and its secret goes out of the path", async (t) => {
  const { depot, page } = await setUp(t);
  const folder = await scratch(t);
  await write(folder, { "set/one": 1000 });
  await signIn(page, depot);
  await startSending(page, [join(folder, "set")]);
  const link = await arrived(page);
  await page.context().clearCookies();
  await page.goto(`${link.replace("#", "%23")}&fp=abc`);
  await page.getByRole("heading", { name: "set", exact: true }).waitFor();
  assert.equal(page.url(), `${link}&fp=abc`);
});
