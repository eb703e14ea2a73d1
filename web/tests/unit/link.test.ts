import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { depot } from "../../src/api/depot";
import { Link } from "../../src/api/link";

/** Of whichever call. */
const ANSWER = JSON.stringify({ id: "t", state: "complete", expires: 0, bytes: 0, entries: [], total: 0 });
const REFUSED = '{"error":{"code":"unauthorized","message":"no","retry":false}}';

/** A depot that gives a cookie with the link, which the browser keeps or not, and its answers' statuses so far. */
function cookies(t: TestContext, keeps: boolean) {
  let cookie = false;
  const statuses: [string, number][] = [];
  t.mock.method(globalThis, "fetch", async (url: string) => {
    const opens = url.endsWith("/open");
    if (opens) cookie = keeps;
    const status = opens || cookie ? 200 : 401;
    statuses.push([opens ? "open" : "ask", status]);
    return new Response(status === 200 ? ANSWER : REFUSED, { status });
  });
  return statuses;
}

const ask = () => depot.entries("t", 0, 1);

test("a link whose cookie has ended is opened once more for what needs it", async (t) => {
  const statuses = cookies(t, true);
  await new Link("t", "thl_").through(ask);
  assert.deepEqual(statuses, [["ask", 401], ["open", 200], ["ask", 200]]);
});

test("a browser that keeps no cookie is told so, and not asked again and again", async (t) => {
  const statuses = cookies(t, false);
  await assert.rejects(new Link("t", "thl_").through(ask), { code: "no_cookie", status: 401, retry: false });
  assert.deepEqual(statuses, [["ask", 401], ["open", 200], ["ask", 401]]);
});

test("whoever came without a link's secret has nothing to open it with", async (t) => {
  const statuses = cookies(t, true);
  await assert.rejects(new Link("t", null).through(ask), { status: 401 });
  assert.deepEqual(statuses, [["ask", 401]]);
});

test("before the browser asks for a download itself, a cookie that has ended is there once more, and one that has not stays", async (t) => {
  const statuses = cookies(t, true);
  const link = new Link("t", "thl_");
  await link.renew();
  await link.renew();
  assert.deepEqual(statuses, [["ask", 401], ["open", 200], ["ask", 200], ["ask", 200]]);
});
