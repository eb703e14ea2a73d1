import assert from "node:assert/strict";
import { test } from "node:test";
import { type Phase, type Step, phaseAfter } from "../../src/engine/sending_phase";

/** The phases that these steps lead through. */
function through(first: Phase, ...steps: Step[]): Phase[] {
  const phases = [first];
  for (const step of steps) phases.push(phaseAfter(phases.at(-1)!, step));
  return phases.slice(1);
}

test("a transfer is begun, declared, sent, again where the depot lacks some of it, and finished", () => {
  const phases = through("beginning", "begun", "declared", "delivered", "lacking", "delivered", "finished");
  assert.deepEqual(phases, ["declaring", "sending", "finishing", "sending", "finishing", "done"]);
});

test("what is refused stops, and goes on with what the depot has yet to be told, or to get", () => {
  for (const phase of ["declaring", "sending", "finishing"] as const) assert.deepEqual(through(phase, "refused"), ["stopped"], phase);
  assert.deepEqual(through("stopped", "resumed", "refused", "resumedSealed"), ["declaring", "stopped", "sending"]);
  assert.deepEqual(through("sending", "resumed", "resumedSealed"), ["sending", "sending"], "after a pause it is where it was");
});

test("what stopped goes on only where somebody wants it, but may turn out to be finished", () => {
  assert.deepEqual(through("stopped", "declared", "delivered", "lacking", "finished"), ["stopped", "stopped", "stopped", "done"]);
});

test("what is closed or done stays so, whatever comes late", () => {
  const late: Step[] = ["begun", "declared", "delivered", "lacking", "finished", "refused", "resumed", "resumedSealed", "closed"];
  for (const phase of ["closed", "done"] as const) {
    for (const step of late) assert.equal(phaseAfter(phase, step), phase, `${step} when it is ${phase}`);
  }
  for (const phase of ["beginning", "declaring", "sending", "finishing", "stopped"] as const) assert.equal(phaseAfter(phase, "closed"), "closed", phase);
});
