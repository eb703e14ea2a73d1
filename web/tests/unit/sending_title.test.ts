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

test("the title of what waits for an answer to something other than bytes says so, too", () => {
  const state = { paused: false, reachable: true, hindrance: "network" } as const;
  for (const phase of ["declaring", "sending", "finishing"] as const) {
    assert.equal(sendingTitle({ ...state, phase }, 100), "Connection lost");
    assert.equal(sendingTitle({ ...state, phase, hindrance: "stopping" }, 100), "Trying again");
    assert.equal(sendingTitle({ ...state, phase, paused: true }, 100), "Paused");
    assert.equal(sendingTitle({ ...state, phase, hindrance: null }, 100), "100 %");
  }
});
