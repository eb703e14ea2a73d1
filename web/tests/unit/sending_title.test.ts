import assert from "node:assert/strict";
import { test } from "node:test";
import { sendingTitle } from "../../src/views/sending_title";

test("the title says why nothing gets on, and else how far it is", () => {
  const sending = { phase: "sending", paused: false, reachable: true, hindrance: null } as const;
  assert.equal(sendingTitle(sending, 42), "42 %");
  assert.equal(sendingTitle({ ...sending, paused: true }, 42), "Paused");
  assert.equal(sendingTitle({ ...sending, reachable: false, paused: true }, 42), "Connection lost");
  assert.equal(sendingTitle({ ...sending, reachable: false, hindrance: "stopping" }, 42), "Trying again");
  // A transfer may be gone with the connection.
  assert.equal(sendingTitle({ phase: "stopped", paused: true, reachable: false, hindrance: "network" }, 42), "Stopped");
});
