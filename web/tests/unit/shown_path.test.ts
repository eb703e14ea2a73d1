import assert from "node:assert/strict";
import { test } from "node:test";
import { shownPath } from "../../src/engine/shown_path";

const hex = (bytes: number[]) => Buffer.from(bytes).toString("hex");

test("what is not UTF-8 is shown as its bytes, and nothing else looks like it", () => {
  assert.equal(shownPath(hex([0x61, 0x25, 0xff, 0x2f, 0xfe, 0xc3, 0xa4])), "a%25%FF/%FE\u{e4}");
  assert.equal(shownPath(Buffer.from("\u{1f600}\u4f60a").toString("hex") + "c3"), "\u{1f600}\u4f60a%C3");
  assert.equal(shownPath("efbbbfff"), "\ufeff%FF", "a mark of UTF-8 is a character like others");
  assert.notEqual(shownPath("ff"), shownPath("fe"));
});
