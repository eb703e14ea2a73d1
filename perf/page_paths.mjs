#!/usr/bin/env node
// The page in headless Chromium on emulated paths of 1 Gbit/s: `node perf/page_paths.mjs [--only round-trips,chunks]
// [--skip small-files] [--match '^chunks .* 128 6$'] [--runs 3] [--cc cubic,bbr] [--out docs/results]`. Writes page.json,
// page.md and plots there. What is not measured this time keeps its place in page.json, so that all can be measured piece
// by piece; `--match` chooses cells by the name that is printed for each, and `--runs 0` only writes the report again. Needs
// what `terahaul lab path` needs.
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { BINARY } from "./depot.mjs";
import { remove } from "./measure.mjs";
import { SETS, cellsOf, identity, sorted } from "./page_paths/cells.mjs";
import { idleShare, machine } from "./page_paths/machine.mjs";
import { plots } from "./page_paths/plots.mjs";
import { markdown } from "./page_paths/report.mjs";
import { commandOf, run } from "./page_paths/run.mjs";

const here = machine(BINARY);
const { values } = parseArgs({
  options: {
    only: { type: "string", default: SETS.join(",") },
    skip: { type: "string", default: "" },
    match: { type: "string", default: "" },
    // Of the chunk table's cells one each, of all others three.
    runs: { type: "string" },
    cc: { type: "string", default: here.congestion_control },
    out: { type: "string", default: new URL("../docs/results", import.meta.url).pathname },
  },
});
const skipped = values.skip.split(",");
const sets = values.only.split(",").filter((set) => !skipped.includes(set));
const cells = sets.flatMap((set) => cellsOf(set, values.cc.split(","))).filter((cell) => new RegExp(values.match).test(identity(cell)));
const runsOf = ({ set }) => Number(values.runs ?? (set === "chunks" ? 1 : 3));
const out = resolve(values.out);
mkdirSync(out, { recursive: true });

const work = `/dev/shm/terahaul-page-${process.pid}`;
mkdirSync(work);
const children = new Set();
process.on("exit", () => {
  // The lab ends what runs inside its path.
  children.forEach((child) => child.kill("SIGTERM"));
  remove(work);
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130));

const file = `${out}/page.json`;
const results = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : { cells: [] };
const most = Math.max(0, ...cells.map(runsOf));
const fresh = new Map();
// Rounds, so that what else the machine does falls on all cells alike.
for (let round = 0; round < most; round++) {
  for (const cell of cells.filter((cell) => round < runsOf(cell))) {
    const idle_before = await idleShare();
    const { seconds, choosing_seconds, counters, stolen } = await run(cell, work, children);
    const measured = fresh.get(identity(cell)) ?? { ...cell, command: shown(cell), machine: here, runs: [] };
    measured.runs.push({ at: new Date().toISOString(), idle_before, seconds, choosing_seconds, stolen, path: withoutSamples(counters) });
    fresh.set(identity(cell), measured);
    console.log(`${identity(cell)}: ${seconds} s${stolen >= 0.05 ? `, ${(stolen * 100).toFixed(0)} % of the processor time stolen` : ""}`);
    save();
  }
}
save();

function save() {
  const kept = results.cells.filter((cell) => !fresh.has(identity(cell)));
  const all = { cells: sorted([...kept, ...fresh.values()]) };
  // A crash in the middle leaves the file as it was.
  writeFileSync(`${file}.new`, `${JSON.stringify(all, null, 1)}\n`);
  renameSync(`${file}.new`, file);
  writeFileSync(`${out}/page.md`, markdown(all.cells));
  for (const [name, svg] of plots(all.cells)) writeFileSync(`${out}/${name}`, svg);
}

function withoutSamples(counters) {
  return Object.fromEntries(Object.entries(counters).map(([way, { samples, ...counted }]) => [way, counted]));
}

/** The command as someone else would type it in `web/`. */
function shown(cell) {
  return commandOf(cell, "terahaul", "WORK", "discard").map((word) => (/^[\w./=:-]+$/.test(word) ? word : `'${word}'`)).join(" ");
}
