/** A depot in memory, which can be told to misbehave, behind a line, and a browser that is signed in there with a folder to send. */
import { join } from "node:path";
import type { TestContext } from "node:test";
import { BLOCK_SIZE, blockOf } from "../../src/engine/units";
import { FakeDepot } from "../fake/depot";
import { openBrowser } from "./browser";
import { atEnd, content, scratch, write } from "./files";
import { Line } from "./line";
import { signIn } from "./steps";

export async function setUp(t: TestContext, bytesPerSecond = 10e9, switches = "") {
  const folder = await scratch(t);
  const depot = await FakeDepot.start();
  const line = await Line.to({ ...depot, real: false, url: depot.url, page: depot.page, stop: async () => {} }, bytesPerSecond);
  const browser = await openBrowser();
  atEnd(t, async () => {
    await browser.close();
    line.close();
    depot.close();
  });
  await write(folder, { "set/a.raw": 40_000_000, "set/b.raw": 20_000_000, "set/small/one": 1000, "set/small/two": 2000 });
  const at = new URL(line.over(depot.page));
  at.search = switches;
  await signIn(browser.page, { page: at.href });
  return { depot, line, page: browser.page, folder: join(folder, "set") };
}

export const onlyTransfer = (depot: FakeDepot) => [...depot.transfers.values()][0]!;

/** Another device sends all of a large file. */
export function sendElsewhere(depot: FakeDepot, path: string): void {
  const { entries, blocks } = onlyTransfer(depot);
  const { address, size } = entries.find((entry) => entry.path === path)!;
  const bytes = content(path, size);
  for (let at = 0; at < size; at += BLOCK_SIZE) blocks.set(blockOf(address! + at), bytes.subarray(at, at + BLOCK_SIZE));
}
