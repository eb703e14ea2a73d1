/** What measures the page's speed still does. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { scratch, write } from "./files";

const WEB = fileURLToPath(new URL("../../", import.meta.url));

test("the benchmark of the page ends with its figures, and nothing behind them", async (t) => {
  const folder = await scratch(t);
  await write(folder, { sent: 5_000_000 });
  const { stdout } = await promisify(execFile)("node", ["--import", "tsx", "tests/bench/page.ts", `${folder}/sent`], { cwd: WEB });
  const { seconds } = JSON.parse(stdout.trim().split("\n").at(-1)!) as { seconds: number };
  assert.ok(seconds > 0, stdout);
});
