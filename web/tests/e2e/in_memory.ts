/** A depot in memory, and a browser that is not on its page yet. */
import type { TestContext } from "node:test";
import { FakeDepot } from "../fake/depot";
import { type Session, openBrowser } from "./browser";
import { atEnd } from "./files";

/** Both end with the test. */
export async function depotInMemory(t: TestContext): Promise<{ depot: FakeDepot } & Omit<Session, "close">> {
  const depot = await FakeDepot.start();
  const { close, ...session } = await openBrowser();
  atEnd(t, async () => {
    await close();
    depot.close();
  });
  return { depot, ...session };
}
