import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { awaitFinish } from "../../src/api/await_finish";
import { DepotError } from "../../src/api/error";
import type { Tab } from "../../src/api/tab";
import type { Transfer } from "../../src/api/types";

const OPEN: Transfer = {
  id: "t", name: "set", state: "open", created: 0, expires: 9, completed: null, entries: 2, files: 2, failed: 0, bytes: 100, durable_bytes: 10, sealed: true,
};
const HOUR = 3_600_000;

/** A tab whose time is the test's. */
class TestTab implements Tab {
  hidden = false;
  now = 0;
  #timer: { at: number; action: () => void } | null = null;
  readonly #followers = new Set<() => void>();

  follow(changed: () => void) {
    this.#followers.add(changed);
    return () => this.#followers.delete(changed);
  }

  after(milliseconds: number, action: () => void) {
    assert.equal(this.#timer, null, "one at a time");
    this.#timer = { at: this.now + milliseconds, action };
    return () => (this.#timer = null);
  }

  /** Lets time pass, to when something was to be done. */
  async pass(milliseconds: number) {
    const end = this.now + milliseconds;
    await settled();
    while (this.#timer && this.#timer.at <= end) {
      const { at, action } = this.#timer;
      this.#timer = null;
      this.now = at;
      action();
      await settled();
    }
    this.now = end;
  }

  async become(hidden: boolean) {
    this.hidden = hidden;
    await this.happen();
  }

  /** The tab was hidden or shown, or the network came back. */
  async happen() {
    for (const changed of [...this.#followers]) changed();
    await settled();
  }

  get followers() {
    return this.#followers.size;
  }
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A page that waits for `OPEN`: the moments at which it asked, and what it made of the answers. */
function setUp(t: TestContext, random = 1) {
  t.mock.method(Math, "random", () => random);
  const tab = new TestTab();
  const stop = new AbortController();
  const page = {
    tab, stop,
    asked: [] as number[], told: [] as number[], lost: [] as string[],
    /** How the depot answers. */
    answer: (): Partial<Transfer> | DepotError => ({}),
    finished: null as Transfer | null,
    failed: null as Error | null,
    /** How long it waited before each question since it was last asked for this. */
    waits() {
      const times = page.asked.splice(0);
      return times.map((at, index) => at - (times[index - 1] ?? last.at)).map((wait) => ((last.at += wait), wait));
    },
  };
  const last = { at: 0 };
  const ask = async () => {
    page.asked.push(tab.now);
    const answer = page.answer();
    if (answer instanceof Error) throw answer;
    return { ...OPEN, ...answer };
  };
  const told = ({ durable_bytes }: Transfer) => void page.told.push(durable_bytes);
  const lost = ({ code }: DepotError) => void page.lost.push(code);
  awaitFinish(OPEN, ask, stop.signal, { told, lost }, tab).then(
    (transfer) => (page.finished = transfer),
    (error: Error) => (page.failed = error),
  );
  return page;
}

test("while nothing changes it is asked less and less often, and every half minute in the end", async (t) => {
  const page = setUp(t);
  await page.tab.pass(2 * 60_000);
  assert.deepEqual(page.waits(), [4000, 8000, 16_000, 30_000, 30_000, 30_000]);
  await page.tab.pass(HOUR);
  assert.equal(page.asked.length, 120);
});

test("pages that were opened together do not ask together", async (t) => {
  const page = setUp(t, 0);
  await page.tab.pass(30_000);
  assert.deepEqual(page.waits(), [2000, 4000, 8000, 15_000]);
});

test("while bytes or entries come it is asked every four seconds, and each answer is told", async (t) => {
  const page = setUp(t);
  let durable_bytes = 10;
  page.answer = () => ({ durable_bytes: ++durable_bytes });
  await page.tab.pass(12_000);
  let entries = 2;
  page.answer = () => ({ durable_bytes, entries: ++entries });
  await page.tab.pass(12_000);
  assert.deepEqual(page.waits(), [4000, 4000, 4000, 4000, 4000, 4000]);
  assert.deepEqual(page.told, [11, 12, 13, 13, 13, 13]);
});

test("once it is finished it is not asked again, whatever of it arrived", async (t) => {
  for (const state of ["complete", "partial"] as const) {
    const page = setUp(t);
    page.answer = () => ({ state, durable_bytes: 100 });
    await page.tab.pass(HOUR);
    await page.tab.happen();
    assert.deepEqual([page.asked.length, page.finished?.state, page.told, page.tab.followers], [1, state, [100], 0]);
  }
});

test("while the tab is hidden nothing is asked, and at once when it is shown", async (t) => {
  const page = setUp(t);
  await page.tab.pass(60_000);
  page.waits();
  await page.tab.become(true);
  await page.tab.pass(HOUR);
  // The network comes and goes, which nobody sees either.
  await page.tab.happen();
  assert.deepEqual(page.asked, []);
  const shown = page.tab.now;
  await page.tab.become(false);
  assert.deepEqual(page.asked.splice(0), [shown]);
  await page.tab.pass(8000);
  assert.deepEqual(page.asked, [shown + 8000], "somebody looks now: delays began anew");
});

test("a tab that is hidden while an answer is on its way waits with the next question", async (t) => {
  const page = setUp(t);
  page.answer = () => {
    page.tab.hidden = true;
    return {};
  };
  await page.tab.pass(HOUR);
  assert.equal(page.asked.length, 1);
  page.answer = () => ({ state: "complete" });
  await page.tab.become(false);
  assert.equal(page.finished?.state, "complete");
});

test("what may be over soon is asked again, less and less often, and at once when the network is back", async (t) => {
  const page = setUp(t);
  page.answer = () => DepotError.network();
  await page.tab.pass(28_000);
  assert.deepEqual([page.waits(), page.lost], [[4000, 8000, 16_000], ["network", "network", "network"]]);
  page.answer = () => ({ state: "complete" });
  await page.tab.happen();
  assert.deepEqual([page.asked, page.finished?.state], [[28_000], "complete"]);
});

test("a transfer that was removed is not asked for again", async (t) => {
  const page = setUp(t);
  page.answer = () => new DepotError("not_found", "There is no such transfer.", 404, false);
  await page.tab.pass(HOUR);
  assert.deepEqual([page.asked.length, (page.failed as DepotError).status, page.lost], [1, 404, []]);
});

test("a view that is left asks nothing more, and nothing is told to it", async (t) => {
  const waiting = setUp(t);
  await settled();
  waiting.stop.abort();
  await waiting.tab.pass(HOUR);
  assert.deepEqual([waiting.asked, waiting.failed?.name, waiting.tab.followers], [[], "AbortError", 0]);
  const asking = setUp(t);
  asking.answer = () => {
    asking.stop.abort();
    return { state: "complete" };
  };
  await asking.tab.pass(HOUR);
  assert.deepEqual([asking.asked.length, asking.told, asking.finished], [1, [], null]);
});
