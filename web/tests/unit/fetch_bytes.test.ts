import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { DepotError } from "../../src/api/error";
import { addressRun, fetchBytes, fileRun } from "../../src/receive/fetch_bytes";
import { Turns } from "../../src/receive/turns";

/** What a depot has, and asks that are cut short after so many bytes: `null` for one that is not. Something between answers the first
 * asks with `foreign`. */
function depot(t: TestContext, content: Uint8Array, cuts: (number | null)[], tag = '"right"', foreign: Response[] = []) {
  const asked: string[] = [];
  const delays: number[] = [];
  // Nobody waits here.
  t.mock.method(globalThis, "setTimeout", (done: () => void, milliseconds: number) => {
    if (milliseconds >= 60_000) return 0;
    delays.push(milliseconds);
    queueMicrotask(done);
    return 0;
  });
  Object.assign(globalThis, { addEventListener: () => {}, removeEventListener: () => {} });
  t.mock.method(globalThis, "fetch", async (url: string, { headers }: { headers: Record<string, string> }) => {
    const range = /^bytes=(\d+)-(\d+)$/.exec(headers["Range"] ?? "");
    const run = /bytes\/(\d+)\?length=(\d+)$/.exec(url);
    asked.push(headers["Range"] ?? url);
    if (foreign.length > 0) return foreign.shift()!;
    const same = (headers["If-Range"] ?? tag) === tag;
    let bytes = content;
    if (run) bytes = content.subarray(Number(run[1]), Number(run[1]) + Number(run[2]));
    else if (same) bytes = content.subarray(Number(range![1]), Number(range![2]) + 1);
    const cut = cuts.shift() ?? null;
    const body = new ReadableStream({
      start(stream) {
        if (cut !== 0) stream.enqueue(bytes.slice(0, cut ?? bytes.length));
        if (cut === null) stream.close();
      },
      pull: (stream) => stream.error(new TypeError("network error")),
    }, { highWaterMark: 0 });
    const of: Record<string, string> = { "Content-Type": "application/octet-stream" };
    if (run) return new Response(body, { headers: of });
    if (!same) return new Response(body, { headers: { ...of, ETag: tag } });
    return new Response(body, { status: 206, headers: { ...of, ETag: tag, "Content-Range": `bytes ${range![1]}-${range![2]}/${content.length}` } });
  });
  return { asked, delays };
}

function events() {
  const seen = { heard: 0, lost: [] as string[] };
  return { seen, heard: (bytes: number) => void (seen.heard += bytes), lost: ({ code }: DepotError) => void seen.lost.push(code) };
}

const signal = new AbortController().signal;
const content = Uint8Array.from({ length: 100 }, (_, at) => at);

test("what came before a connection broke is kept, and only the rest is asked for", async (t) => {
  const { asked } = depot(t, content, [30, 40]);
  const all = events();
  const bytes = await fetchBytes(fileRun("t", 0, "right", 10, 85), signal, all);
  assert.deepEqual(new Uint8Array(bytes), content.subarray(10, 95));
  assert.deepEqual(asked, ["bytes=10-94", "bytes=40-94", "bytes=80-94"]);
  assert.deepEqual(all.seen, { heard: 85, lost: ["network", "network"] });
});

test("so it is in the address space, and where the connection breaks after the last byte", async (t) => {
  const { asked } = depot(t, content, [30, 20]);
  const bytes = await fetchBytes(addressRun("t", 50, 50), signal, events());
  assert.deepEqual(new Uint8Array(bytes), content.subarray(50));
  assert.deepEqual(asked, ["/api/v1/transfers/t/bytes/50?length=50", "/api/v1/transfers/t/bytes/80?length=20"]);
});

test("a turn that is called off is given back at once, and the rest is asked for in the next one", async (t) => {
  const asked: string[] = [];
  t.mock.method(globalThis, "fetch", async (_: string, { headers, signal }: { headers: Record<string, string>; signal: AbortSignal }) => {
    asked.push(headers["Range"]!);
    const first = Number(/^bytes=(\d+)-/.exec(headers["Range"]!)![1]);
    const body = new ReadableStream({
      start(stream) {
        // The first answer stops in the middle.
        stream.enqueue(content.slice(first, asked.length === 1 ? 40 : 95));
        if (asked.length > 1) stream.close();
        else signal.addEventListener("abort", () => stream.error(signal.reason));
      },
    });
    const range = { "Content-Type": "application/octet-stream", "Content-Range": `bytes ${first}-94/100` };
    return new Response(body, { status: 206, headers: range });
  });
  const turns = new Turns(2);
  const other = await turns.take();
  const all = events();
  const heard = (bytes: number) => {
    all.heard(bytes);
    turns.limit = 1;
  };
  const fetching = fetchBytes(fileRun("t", 0, null, 10, 85), signal, { ...all, heard }, undefined, turns);
  for (let at = 0; at < 20; at++) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(asked, ["bytes=10-94"], "the other one had its turn before");
  other.end();
  assert.deepEqual(new Uint8Array(await fetching), content.subarray(10, 95));
  assert.deepEqual(asked, ["bytes=10-94", "bytes=40-94"]);
  assert.deepEqual(all.seen, { heard: 85, lost: [] });
});

test("delays grow while nothing comes, and begin anew when something has", async (t) => {
  const { delays } = depot(t, content, [0, 0, 0, 0, 1, 0, 1]);
  await fetchBytes(fileRun("t", 0, "right", 0, 100), signal, events());
  const steps = delays.map((delay) => Math.ceil(Math.log2(delay / 125)));
  assert.deepEqual(steps, [1, 2, 3, 4, 1, 2, 1]);
});

test("other content under the same name is noticed, and not taken for the rest", async (t) => {
  depot(t, content, [], '"other"');
  const all = events();
  await assert.rejects(fetchBytes(fileRun("t", 0, "right", 10, 85), signal, all), { code: "other_content" });
  assert.deepEqual(all.seen, { heard: 0, lost: [] });
});

test("what something between answers is not taken for the depot's bytes, and is asked for again", async (t) => {
  const type = { "Content-Type": "application/octet-stream" };
  const partial = { ETag: '"right"', "Content-Range": "bytes 10-94/100" };
  const { asked } = depot(t, content, [], '"right"', [
    // It knows nothing of ranges.
    new Response(content, { headers: { ...type, ETag: '"right"' } }),
    new Response("<p>Log in</p>", { status: 206, headers: { ...partial, "Content-Type": "text/html" } }),
    new Response(content, { status: 206, headers: { ...type, ...partial, "Content-Range": "bytes 0-99/100" } }),
  ]);
  const all = events();
  const bytes = await fetchBytes(fileRun("t", 0, "right", 10, 85), signal, all);
  assert.deepEqual(new Uint8Array(bytes), content.subarray(10, 95));
  assert.deepEqual(asked, Array.from({ length: 4 }, () => "bytes=10-94"));
  assert.deepEqual(all.seen, { heard: 85, lost: ["bad_answer", "bad_answer", "bad_answer"] });
});

test("a whole answer of fewer bytes than were asked for is said to be short, and the rest is asked for", async (t) => {
  const headers = { "Content-Type": "application/octet-stream", ETag: '"right"', "Content-Range": "bytes 10-94/100" };
  const { asked } = depot(t, content, [], '"right"', [new Response(content.slice(10, 40), { status: 206, headers })]);
  const all = events();
  const bytes = await fetchBytes(fileRun("t", 0, "right", 10, 85), signal, all);
  assert.deepEqual(new Uint8Array(bytes), content.subarray(10, 95));
  assert.deepEqual(asked, ["bytes=10-94", "bytes=40-94"]);
  assert.deepEqual(all.seen, { heard: 85, lost: ["short_answer"] });
});
