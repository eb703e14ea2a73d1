import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { POLICY } from "../fake/depot";

test("the depot in memory serves the page under the depot's own policy", () => {
  const source = readFileSync(new URL("../../../crates/terahaul-depot/src/api/mod.rs", import.meta.url), "utf8");
  const [, policy] = /const POLICY: &str = "([^"]*)"/.exec(source)!;
  assert.equal(POLICY, policy!.replace(/\\\n\s*/g, ""));
});
