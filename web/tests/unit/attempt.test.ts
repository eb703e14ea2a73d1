import assert from "node:assert/strict";
import { test } from "node:test";
import { DepotError } from "../../src/api/error";
import { told } from "../../src/ui/attempt";

const texts = { failed: "It was not deleted", unsure: "It may be deleted all the same." };

test("what the depot refuses has not been done, with its reason", () => {
  const refusal = DepotError.fromAnswer(403, '{"error":{"code":"forbidden","message":"the token may not"}}');
  assert.equal(told(refusal, texts), "It was not deleted: The token may not.");
  assert.equal(told(DepotError.fromAnswer(413, "<html>"), texts).slice(0, 20), "It was not deleted: ");
  assert.equal(told(new RangeError("no"), texts), "It was not deleted: no");
});

test("where no answer came, or none of the depot's, it may have been done", () => {
  const lost = [DepotError.network(), DepotError.unreadable(200), DepotError.fromAnswer(504, "<html>"), DepotError.fromAnswer(520, "")];
  for (const error of lost) assert.equal(told(error, texts), `${error.message} It may be deleted all the same.`);
});
