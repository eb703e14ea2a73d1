import assert from "node:assert/strict";
import { test } from "node:test";
import { depot } from "../../src/api/depot";
import { session } from "../../src/api/session";

/** What the page makes of an answer. */
async function outcome(t: import("node:test").TestContext, call: () => Promise<unknown>, status: number, body: string | null): Promise<string> {
  t.mock.method(globalThis, "fetch", async () => new Response(body, { status }));
  return call().then(() => "taken", (error: { code: string }) => error.code);
}

test("what answers in the depot's place is not taken for its word, whatever it says", async (t) => {
  const calls: (() => Promise<unknown>)[] = [
    () => depot.session(),
    () => depot.signIn({ token: "tht_x" }),
    () => depot.signOut(),
    () => depot.transfers(10),
    () => depot.create("t", 1, "key", [], false),
    () => depot.transfer("t"),
    () => depot.extend("t", 1),
    () => depot.remove("t", null),
    () => depot.append("t", [], 0, true),
    () => depot.entries("t", 0, 1),
    () => depot.fail("t", []),
    () => depot.present("t"),
    () => depot.finish("t"),
    () => depot.openLink("t", "thl_x"),
  ];
  for (const call of calls) {
    for (const body of ["{}", "[]", "null", "", "<html>Sign in</html>"]) assert.equal(await outcome(t, call, 200, body), "bad_answer", `${call} ${body}`);
  }
  assert.equal(await outcome(t, () => depot.signOut(), 204, null), "taken");
});

test("where a proxy replaces what the depot refuses, nobody is signed in when the page comes", async (t) => {
  assert.equal(session.state, "out");
  session.state = "unknown";
  assert.equal(await outcome(t, () => depot.session(), 401, "<html>Unauthorized</html>"), "http_401");
  assert.equal(session.state, "out");
});

test("a proxy that wants a password has not ended the depot's session", async (t) => {
  t.mock.method(globalThis, "fetch", async () => Response.json({ scopes: ["send"], label: "owner" }));
  await depot.session();
  assert.equal(await outcome(t, () => depot.transfer("t"), 401, "<html>Proxy</html>"), "http_401");
  assert.equal(session.state, "in");
});
