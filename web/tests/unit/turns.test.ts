import assert from "node:assert/strict";
import { test } from "node:test";
import { type Turn, Turns } from "../../src/receive/turns";

test("as many have a turn as may, in the order in which they came, and a limit that falls calls the latest off", async () => {
  const turns = new Turns(2);
  const had: Turn[] = [];
  const order: number[] = [];
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  for (let at = 0; at < 6; at++) void turns.take().then((turn) => order.push(at) && had.push(turn));
  await settle();
  assert.deepEqual(order, [0, 1]);
  turns.limit = 1;
  await settle();
  assert.deepEqual(had.map(({ signal }) => signal.aborted), [false, true]);
  had[1]!.end();
  await settle();
  assert.deepEqual(order, [0, 1], "there is one that goes on");
  had[0]!.end();
  await settle();
  assert.deepEqual(order, [0, 1, 2]);
  turns.limit = 3;
  await settle();
  assert.deepEqual(order, [0, 1, 2, 3, 4]);
  assert.deepEqual(had.map(({ signal }) => signal.aborted), [false, true, false, false, false]);
});
