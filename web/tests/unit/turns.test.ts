import assert from "node:assert/strict";
import { test } from "node:test";
import { Turns } from "../../src/receive/turns";

test("as many have a turn as may, in the order in which they came, and a limit that falls takes none away", async () => {
  const turns = new Turns(2);
  const had: number[] = [];
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  for (let at = 0; at < 6; at++) void turns.take().then(() => had.push(at));
  await settle();
  assert.deepEqual(had, [0, 1]);
  turns.limit = 1;
  turns.end();
  await settle();
  assert.deepEqual(had, [0, 1]);
  turns.end();
  await settle();
  assert.deepEqual(had, [0, 1, 2]);
  turns.limit = 3;
  await settle();
  assert.deepEqual(had, [0, 1, 2, 3, 4]);
});
