// One file of random bytes over loopback: ours over TCP, ours over UDP, and quinn's QUIC; with what a gigabyte costs both ends.
import { mkdirSync } from "node:fs";
import { compare, cpuOf, remove, report, start, timed } from "../measure.mjs";
import { removeTransfer, send } from "../depot.mjs";
import { randomFile } from "./file.mjs";

const QUINN = new URL("../bin/terahaul-bench-quinn", import.meta.url).pathname;
/** What is asked of UDP, as quotients of the others' times and ours. */
const GOALS = { "terahaul, TCP": 1.0, "quinn (not hashed)": 2.0 };

export async function udp({ work, depot, children, runs, gib }) {
  const source = randomFile(work, gib);
  const target = `${work}/dst`;
  mkdirSync(target, { recursive: true });
  const quinn = await start(QUINN, ["serve", "127.0.0.1", "0"], { ready: "\n" });
  children.push(quinn.child);
  const port = quinn.said.trim();
  const ours = (transport) => ({
    name: `terahaul, ${transport.toUpperCase()}`,
    run: () => send(depot, source, `--transport ${transport}`),
    after: (r) => removeTransfer(depot, r.link),
  });
  const theirs = {
    name: "quinn (not hashed)",
    run: () => {
      const before = cpuOf(quinn.child.pid);
      const result = timed(`${QUINN} send 127.0.0.1 ${port} ${source} ${target}/quinn`);
      return { ...result, far: cpuOf(quinn.child.pid) - before };
    },
    after: () => remove(`${target}/quinn`),
  };
  const results = await compare([ours("udp"), ours("tcp"), theirs], runs);
  quinn.child.kill("SIGTERM");
  remove(target);
  const printed = report(`loopback, ${gib} GiB file, UDP against TCP and QUIC`, results, "terahaul, UDP", GOALS);
  console.log("\n| | Gbit/s | CPU s a GB, here / far | Gbit/s a core |\n|---|---|---|---|");
  const gb = gib * 1.073741824;
  for (const [name, r] of results) {
    const cost = `${(r.cpu / gb).toFixed(2)} / ${(r.far / gb).toFixed(2)}`;
    console.log(`| ${name} | ${((8 * gb) / r.wall).toFixed(1)} | ${cost} | ${((8 * gb) / (r.cpu + r.far)).toFixed(1)} |`);
  }
  return printed;
}
