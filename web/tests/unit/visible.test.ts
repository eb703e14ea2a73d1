import assert from "node:assert/strict";
import { test } from "node:test";
import { visible } from "../../src/engine/visible";

test("a name cannot turn round what is read of it, nor hide a part of itself", () => {
  assert.equal(visible("invoice\u202efdp.exe"), "invoice\\u{202e}fdp.exe");
  assert.equal(visible("line\nbreak\ttab\u200b\u0007"), "line\\nbreak\\ttab\\u{200b}\\u{7}");
  assert.equal(visible("\ufeffa\u2066b\u0085"), "\\u{feff}a\\u{2066}b\\u{85}");
});

test("names in any script, and emoji of several parts, stay as they are", () => {
  for (const name of ["Grüße & 你好 #1.txt", "می‌خواهم", "👩‍🔬.png", "مرحبا", "a'b\\c"]) assert.equal(visible(name), name);
});

test("a name that shows nothing is spelled out: blanks that look like none, tags, and joiners that have nothing to join", () => {
  assert.equal(visible("\u2800"), "\\u{2800}");
  assert.equal(visible("a\u{e0041}\u{e007f}\u{1d173}"), "a\\u{e0041}\\u{e007f}\\u{1d173}");
  assert.equal(visible("\u200d"), "\\u{200d}");
  assert.equal(visible("in/\u200c\ufe0f/\u200d/\u{e0100}"), "in/\\u{200c}\\u{fe0f}/\\u{200d}/\\u{e0100}");
  assert.equal(visible("❤\ufe0f/a\u200d"), "❤\ufe0f/a\u200d");
});
