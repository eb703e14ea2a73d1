import assert from "node:assert/strict";
import { test } from "node:test";
import { depot } from "../../src/api/depot";
import { HashPool, WorkerFailed } from "../../src/hash/pool";
import { STARTED } from "../../src/hash/protocol";

const MINUTE = 60_000;

test("on a line that went dead a read is given up after a minute, a write after two and what its body takes, and finishing after fifteen", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  t.mock.method(globalThis, "fetch", (_url: string, { signal }: RequestInit) => {
    return new Promise((_, reject) => signal!.addEventListener("abort", () => reject(new Error("aborted"))));
  });
  const givenUp = async (call: () => Promise<unknown>) => {
    let minutes = 0;
    let code = "";
    void call().catch((error: { code: string }) => (code = error.code));
    for (; code === "" && minutes < 20; minutes++) {
      t.mock.timers.tick(MINUTE);
      await new Promise(setImmediate);
    }
    assert.equal(code, "network");
    return minutes;
  };
  assert.deepEqual(
    [
      await givenUp(() => depot.transfer("t")),
      await givenUp(() => depot.append("t", [], 0, false)),
      await givenUp(() => depot.fail("t", [])),
      // Three megabytes, which a thin line carries in twelve minutes, are on the way for longer than that.
      await givenUp(() => depot.fail("t", [{ entry: 0, reason: "x".repeat(3_000_000) } as never])),
      await givenUp(() => depot.finish("t")),
      await givenUp(() => depot.finish("t", 5)),
    ],
    [1, 2, 2, 14, 15, 15],
  );
});

test("a hash worker whose script does not come is given up after a minute, and one that has started is not", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const workers: SilentWorker[] = [];
  class SilentWorker {
    onmessage: ((event: { data: unknown }) => void) | null = null;
    ended = false;
    constructor() {
      workers.push(this);
    }
    postMessage() {}
    terminate() {
      this.ended = true;
    }
  }
  Object.assign(globalThis, { Worker: SilentWorker, HASH_WORKER: "/assets/hash-worker.js" });
  const pool = new HashPool(1);
  const asked = pool.hash(new ArrayBuffer(1), []);
  t.mock.timers.tick(MINUTE);
  await assert.rejects(asked, WorkerFailed);
  const started = pool.started();
  workers[1]!.onmessage!({ data: STARTED });
  await started;
  t.mock.timers.tick(MINUTE);
  assert.deepEqual(workers.map(({ ended }) => ended), [true, false]);
  pool.close();
});
