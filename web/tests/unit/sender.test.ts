import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { session } from "../../src/api/session";
import type { Entry, SessionInfo, Transfer } from "../../src/api/types";
import { Layout } from "../../src/engine/layout";
import { match } from "../../src/engine/resume";
import { Sender } from "../../src/send/sender";

const TRANSFER: Transfer = {
  id: "t", name: "set", state: "open", created: 0, expires: null, completed: null, entries: 0, files: 0, failed: 0, bytes: 0, durable_bytes: 0, sealed: true,
};

/** A depot that does not answer. */
function silence(t: TestContext): void {
  Object.assign(globalThis, { addEventListener: () => {}, removeEventListener: () => {} });
  t.mock.method(globalThis, "fetch", (_: string, { signal }: { signal: AbortSignal }) =>
    new Promise((_, reject) => signal.addEventListener("abort", () => reject(new DOMException("Called off.", "AbortError")))));
}

/** What is to end a sender, answered when the test says so. */
function ending(sender: Sender) {
  let succeed = () => {};
  let fail: (error: Error) => void = () => {};
  const ended = sender.endBy(() => new Promise((resolve, reject) => ([succeed, fail] = [resolve, reject])));
  return { ended, succeed, fail };
}

test("a late answer to what was to end a transfer is none to whoever has left it since", async (t) => {
  silence(t);
  const sender = () => Sender.goOn(TRANSFER, [], match([], []), { hashing: false });

  const deleted = sender();
  const inTime = ending(deleted);
  inTime.succeed();
  assert.equal(await inTime.ended, true);
  assert.equal(deleted.phase, "closed");

  const kept = sender();
  const late = ending(kept);
  kept.close();
  late.succeed();
  assert.equal(await late.ended, false);

  const refused = sender();
  const lateRefusal = ending(refused);
  refused.close();
  lateRefusal.fail(new Error("no"));
  await assert.rejects(lateRefusal.ended, { message: "no" });
  assert.deepEqual([refused.phase, refused.upload.paused], ["closed", true]);

  const still = sender();
  const refusal = ending(still);
  refusal.fail(new Error("no"));
  await assert.rejects(refusal.ended, { message: "no" });
  assert.deepEqual([still.phase, still.upload.paused], ["declaring", false]);
  still.close();
});

test("what cannot be read before the depot has answered ends the beginning, with the reason", async (t) => {
  silence(t);
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  let now = 0;
  t.mock.method(performance, "now", () => now);
  const file = {
    size: 100,
    slice: (start: number, end: number) => new Blob([new Uint8Array(end - start)]),
    toString: () => {
      throw new Error("no");
    },
  } as unknown as File;
  const chosen = { path: "a", kind: "file" as const, size: 100, mtime: 0, mtime_nanos: 0, file };
  const sender = Sender.begin("a", 7, [chosen], { hashing: false });
  for (let attempt = 0; attempt < 20; attempt++) {
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
    now += 30_001;
    t.mock.timers.tick(30_001);
  }
  assert.deepEqual([sender.phase, sender.problem?.slice(0, 40)], ["closed", "The browser cannot read what comes next,"]);
});

test("what is called off while it begins is removed from the depot, though the line is lost meanwhile", async (t) => {
  Object.assign(globalThis, { addEventListener: () => {}, removeEventListener: () => {} });
  let create = () => {};
  const asked: string[] = [];
  t.mock.method(globalThis, "fetch", async (url: string, { method }: { method: string }) => {
    if (method === "POST") return new Promise((resolve) => (create = () => resolve(Response.json({ ...TRANSFER, placed: [] }))));
    asked.push(method);
    // Each is lost the first time.
    if (asked.filter((one) => one === method).length === 1) throw new TypeError("Failed to fetch");
    return method === "DELETE" ? new Response(null, { status: 204 }) : Response.json({ transfers: url.includes("resume_key=page:") ? [TRANSFER] : [] });
  });
  const sender = Sender.begin("a", 7, [], { hashing: false });
  sender.close();
  create();
  assert.equal(await sender.begun, false);
  assert.deepEqual(asked, ["GET", "GET", "DELETE", "GET", "DELETE"]);
});

test("what was closed while the depot finished it stays closed", async (t) => {
  Object.assign(globalThis, { addEventListener: () => {}, removeEventListener: () => {} });
  let finish = () => {};
  const answers: [RegExp, object][] = [
    [/entries$/, { entries: [], total: 0 }],
    [/extents$/, { blocks: 0, received: [], durable: [] }],
  ];
  t.mock.method(globalThis, "fetch", (url: string) => {
    const found = answers.find(([path]) => path.test(url));
    if (found) return Promise.resolve(Response.json(found[1]));
    return new Promise((resolve) => (finish = () => resolve(Response.json({ ...TRANSFER, state: "complete" }))));
  });
  const sender = Sender.goOn(TRANSFER, [], match([], []), { hashing: false });
  await reached(sender, "finishing");
  sender.close();
  finish();
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(sender.phase, "closed");
});

test("what another device has failed meanwhile is named, and not counted as arrived", async (t) => {
  Object.assign(globalThis, { addEventListener: () => {}, removeEventListener: () => {} });
  const entry = (at: number, path: string, state: Entry["state"]): Entry => {
    return { entry: at, path, kind: "file", size: 100, mtime: 1, mtime_nanos: 0, mode: 0o644, address: 100 * at, state };
  };
  const known = [entry(0, "one", "pending"), entry(1, "two", "pending")];
  const finished = { ...TRANSFER, state: "partial", failed: 1 };
  const answers: [RegExp, object][] = [
    [/entries$/, { entries: [], total: 2 }],
    [/entries\?/, { entries: [entry(0, "one", "complete"), { ...entry(1, "two", "failed"), reason: "It vanished." }], total: 2, next: null }],
    [/extents$/, { blocks: 1, received: [], durable: [[0, 1]] }],
    [/finish/, finished],
  ];
  t.mock.method(globalThis, "fetch", async (url: string) => Response.json(answers.find(([path]) => path.test(url))![1]));
  const chosen = known.map(({ path, kind, size, mtime, mtime_nanos }) => ({ path, kind: kind as "file", size, mtime, mtime_nanos, file: new File([], path) }));
  const sender = Sender.goOn(TRANSFER, known, match(known, chosen), { hashing: false });
  await reached(sender, "done");
  assert.deepEqual(sender.failures, [{ path: "two", reason: "It vanished." }]);
  assert.deepEqual([0, 1].map((at) => sender.upload.isFailed(at)), [false, true]);
  sender.close();
});

test("a transfer that another device has appended to meanwhile is to be resumed from the list", async (t) => {
  Object.assign(globalThis, { addEventListener: () => {}, removeEventListener: () => {} });
  const error = { code: "manifest_conflict", message: "another entry is there", retry: false };
  t.mock.method(globalThis, "fetch", async (url: string) =>
    /extents$/.test(url) ? Response.json({ blocks: 0, received: [], durable: [] }) : Response.json({ error }, { status: 409 }));
  const chosen = { path: "a", kind: "file" as const, size: 0, mtime: 1, mtime_nanos: 0, file: new File([], "a") };
  const sender = Sender.goOn(TRANSFER, [], match([], [chosen]), { hashing: false });
  await reached(sender, "stopped");
  assert.match(sender.problem ?? "", /^It was resumed from elsewhere meanwhile.*resume from the list of transfers\.$/);
  sender.close();
});

/** 101 small files, which are declared in two batches. */
const SMALL = Array.from({ length: 101 }, (_, at) => {
  return { path: `${100 + at}`, kind: "file" as const, size: 10, mtime: 1, mtime_nanos: 0, file: new File(["ten bytes."], `${100 + at}`) };
});

/** A depot that takes the first hundred files, has `received` of them, and refuses more with `code`. Returns what is changed besides. */
function fullDepot(t: TestContext, code: string, { removes = true, received = [] as number[][] } = {}): string[] {
  Object.assign(globalThis, { addEventListener: () => {}, removeEventListener: () => {} });
  const asked: string[] = [];
  t.mock.method(globalThis, "fetch", async (url: string, { method }: { method: string }) => {
    if (url.endsWith("/transfers")) {
      const layout = new Layout();
      return Response.json({ ...TRANSFER, placed: SMALL.slice(0, 100).map(({ size }, entry) => ({ entry, address: layout.append(size) })) });
    }
    if (url.endsWith("/entries")) return Response.json({ error: { code, message: "10 B more would pass the quota", retry: false } }, { status: 507 });
    if (url.endsWith("/extents")) return Response.json({ received, durable: received });
    asked.push(`${method} ${url}`);
    return removes ? new Response(null, { status: 204 }) : Response.json({ error: { code: "internal", message: "no", retry: false } }, { status: 500 });
  });
  return asked;
}

test("what the depot has no room for as a whole leaves nothing there, and stays chosen", async (t) => {
  const asked = fullDepot(t, "quota_exceeded");
  const sender = Sender.begin("a", 7, SMALL, { hashing: false });
  assert.equal(await sender.begun, true);
  assert.equal(await sender.taken, false);
  assert.equal(sender.phase, "closed");
  assert.deepEqual(asked, ["DELETE /api/v1/transfers/t"]);
  assert.match(sender.problem ?? "", /nothing was sent.*10 B more would pass the quota\.$/);
});

test("a transfer that there is no room for, and that cannot be removed, stops and can be gone on with", async (t) => {
  fullDepot(t, "disk_full", { removes: false });
  const sender = Sender.begin("a", 7, SMALL, { hashing: false });
  await reached(sender, "stopped");
  assert.equal(sender.problem, "10 B more would pass the quota.");
  sender.close();
  assert.equal(await sender.taken, true);
});

test("a transfer that there is no room for, and into which somebody has sent by now, is not removed", async (t) => {
  const asked = fullDepot(t, "quota_exceeded", { received: [[0, 1]] });
  const sender = Sender.begin("a", 7, SMALL, { hashing: false });
  await reached(sender, "stopped");
  assert.equal(sender.problem, "10 B more would pass the quota.");
  assert.equal(asked.filter((one) => one.startsWith("DELETE")).length, 0);
  sender.close();
});

test("a transfer of which the depot refuses an entry for another reason than room is not removed", async (t) => {
  const asked = fullDepot(t, "bad_entry");
  const sender = Sender.begin("a", 7, SMALL, { hashing: false });
  await reached(sender, "stopped");
  assert.deepEqual(asked, []);
  sender.close();
});

function reached(sender: Sender, phase: Sender["phase"]): Promise<void> {
  return new Promise((resolve) => {
    const end = sender.subscribe(() => {
      if (sender.phase !== phase) return;
      end();
      resolve();
    });
  });
}

test("what failed on an earlier visit and is not sent again is named, with its reason", (t) => {
  silence(t);
  const entry = (at: number, path: string, state: Entry["state"], reason: string | null = null): Entry => {
    return { entry: at, path, kind: "file", size: 0, mtime: 1, mtime_nanos: 0, mode: 0o644, address: null, state, reason };
  };
  const known = [
    entry(0, "lost", "failed", "It vanished."),
    { ...entry(1, "sent since", "failed", "It vanished."), superseded: true },
    entry(2, "sent since", "complete"),
    entry(3, "sent now", "failed", "It vanished."),
    entry(4, "without a reason", "failed"),
    entry(5, "not chosen", "pending"),
    entry(6, "sent now/before", "complete"),
  ];
  const chosen = { path: "sent now", kind: "file" as const, size: 0, mtime: 2, mtime_nanos: 0, file: new File([], "sent now") };
  const sender = Sender.goOn({ ...TRANSFER, state: "partial" }, known, match(known, [chosen]), { hashing: false });
  assert.deepEqual(sender.failures, [
    { path: "lost", reason: "It vanished." },
    { path: "without a reason", reason: "It failed on an earlier visit." },
    { path: "not chosen", reason: "The file was not chosen again." },
  ]);
  sender.close();
});

test("a transfer that the depot does not know is gone, unless somebody else has signed in since", async (t) => {
  Object.assign(globalThis, { addEventListener: () => {}, removeEventListener: () => {} });
  const error = { code: "not_found", message: "there is no such transfer", retry: false };
  t.mock.method(globalThis, "fetch", async () => Response.json({ error }, { status: 404 }));
  const own: SessionInfo = { token: "a", scopes: ["send"], label: "microscope" };
  session.handleSignedIn(own);
  let problem: string | null = null;
  const isGoneAfter = async (between: () => void) => {
    const sender = Sender.goOn(TRANSFER, [], match([], []), { hashing: false });
    between();
    await reached(sender, "stopped");
    sender.close();
    problem = sender.problem;
    return sender.isGone;
  };
  assert.equal(await isGoneAfter(() => {}), true);
  assert.equal(await isGoneAfter(() => session.handleAccepted({ ...own })), true, "the session was only looked at");
  assert.equal(await isGoneAfter(() => session.handleSignedIn(own)), true, "the same again");
  assert.match(problem!, /^There is no such transfer/);
  const other = { ...own, token: "b" };
  assert.equal(await isGoneAfter(() => session.handleSignedIn(other)), false, "a new one of the same name");
  assert.match(problem!, /^The token that you are signed in with does not see this transfer/);
  assert.equal(await isGoneAfter(() => session.handleAccepted(own)), false, "in another tab");
  assert.equal(await isGoneAfter(() => session.handleAccepted({ scopes: ["send"], label: "microscope" })), false, "an older depot's");
});
