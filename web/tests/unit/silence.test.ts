import assert from "node:assert/strict";
import { test } from "node:test";
import { depot } from "../../src/api/depot";

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
