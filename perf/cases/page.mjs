// The page in headless Chromium: one large file to a depot, and to a server that discards.
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { BINARY } from "../depot.mjs";
import { compare, remove, report, start, timed } from "../measure.mjs";
import { randomFile } from "./file.mjs";

const DISCARD = fileURLToPath(new URL("../../target/release/examples/discard", import.meta.url));
const WEB = fileURLToPath(new URL("../../web", import.meta.url));

export async function page({ own, work, runs, gib }) {
  const source = randomFile(work, gib);
  const data = `${own}/page`;
  // A sign-in works once, so every run has a server of its own.
  const contender = (name, program, args, switches) => ({
    name,
    before: () => (remove(data), mkdirSync(data)),
    run: async () => {
      const { child, said } = await start(program, args, { ready: "\n" });
      const address = JSON.parse(said.split("\n")[0]).page;
      const { out } = timed(`cd ${WEB} && npx --no-install tsx tests/bench/page.ts ${source} '${switches}' '${address}'`);
      child.kill("SIGKILL");
      const { seconds } = JSON.parse(out.trim().split("\n").at(-1));
      return { wall: seconds, cpu: 0 };
    },
  });
  const serve = ["serve", "--json", "--data", data, "--listen", "127.0.0.1:0"];
  const results = await compare(
    [
      contender("terahaul", BINARY, serve, ""),
      contender("server that discards", DISCARD, [data], "nocompare=1"),
      contender("terahaul, no hashing in the browser", BINARY, serve, "nohash=1"),
    ],
    runs,
  );
  return report(`the page in Chromium, ${gib} GiB file`, results, "terahaul", { "server that discards": 0.9 });
}
