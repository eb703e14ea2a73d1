import assert from "node:assert/strict";
import { test } from "node:test";
import { Arrival } from "../../src/engine/arrival";
import { share } from "../../src/engine/share";

test("what comes is counted as it comes, and all of it is there only when all is proven", () => {
  const arrival = new Arrival(1000);
  arrival.handleFound(200);
  assert.deepEqual(arrival.figures(0), { received: 200, share: 0.2, bytesPerSecond: null, secondsLeft: null });
  arrival.handleHeard(400);
  assert.deepEqual(arrival.figures(1000), { received: 600, share: 0.6, bytesPerSecond: 400, secondsLeft: 1 });
  arrival.handleHeard(400);
  assert.deepEqual(arrival.figures(2000), { received: 1000, share: 0.99, bytesPerSecond: 400, secondsLeft: null });
  arrival.handleSettled(800, true);
  assert.equal(arrival.figures(3000).share, 1);
});

test("what is of no use does not count, but came over the line", () => {
  const arrival = new Arrival(1000);
  arrival.figures(0);
  arrival.handleHeard(500);
  arrival.handleSettled(300, false);
  assert.deepEqual(arrival.figures(1000), { received: 200, share: 0.2, bytesPerSecond: 500, secondsLeft: 1.6 });
  arrival.handleEnd();
  assert.equal(arrival.figures(2000).received, 0);
});

test("the last hundredth is for what has arrived", () => {
  assert.deepEqual([share(0, 0, 0), share(0, 50, 100), share(0, 100, 100), share(99, 1, 100), share(100, 0, 100)], [1, 0.5, 0.99, 0.99, 1]);
});
