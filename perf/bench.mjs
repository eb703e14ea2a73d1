#!/usr/bin/env node
// `make bench`: Terahaul beside its peers on this machine. Files are in memory, servers on loopback, runs alternate,
// figures are medians. `node perf/bench.mjs [--runs 5] [--gib 4] [--only file,udp,tree,download,memory,limit,page]`
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { file } from "./cases/file.mjs";
import { tree } from "./cases/tree.mjs";
import { download } from "./cases/download.mjs";
import { memory } from "./cases/memory.mjs";
import { limit } from "./cases/limit.mjs";
import { page } from "./cases/page.mjs";
import { udp } from "./cases/udp.mjs";
import { depot as startDepot } from "./depot.mjs";
import { remove } from "./measure.mjs";
import { rsyncd as startRsyncd, sshd } from "./peers.mjs";

const CASES = { file, udp, limit, tree, download, page, memory };
const { values } = parseArgs({
  options: { runs: { type: "string", default: "5" }, gib: { type: "string", default: "4" }, only: { type: "string" } },
});
const chosen = values.only?.split(",") ?? Object.keys(CASES);
const unknown = chosen.filter((name) => !CASES[name]);
if (unknown.length) {
  console.error(`no such case: ${unknown.join(", ")}; there are ${Object.keys(CASES).join(", ")}`);
  process.exit(2);
}

// Keys, passwords and depots; what rsync's daemon serves is the files alone.
const own = `/dev/shm/terahaul-bench-${process.pid}`;
const work = `${own}/files`;
mkdirSync(own, { mode: 0o700 });
mkdirSync(work);
const children = [];
const stop = () => {
  // TERM lets nginx and sshd end their own children; a depot's folder is removed anyway.
  children.forEach((child) => child.kill("SIGTERM"));
  remove(own);
};
process.on("exit", stop);
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130));

const ssh = await sshd(own);
const rsyncd = await startRsyncd(own, work);
const depot = await startDepot(own);
children.push(ssh.child, rsyncd.child, depot.child);
console.log(`# terahaul bench: ${cpus().length} × ${cpus()[0].model}, ${values.runs} runs each, medians`);
const results = {};
const setting = { own, work, ssh, rsyncd, depot, children, results, runs: Number(values.runs), gib: Number(values.gib) };
for (const name of chosen) {
  results[name] = await CASES[name](setting);
}
mkdirSync(new URL("results", import.meta.url), { recursive: true });
writeFileSync(new URL("results/latest.json", import.meta.url), JSON.stringify(results, null, 1));
process.exit(0);
