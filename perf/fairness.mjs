#!/usr/bin/env node
// Who gets how much of a line that is shared: our UDP transfers beside TCP and beside each other. `node perf/fairness.mjs
// [--runs 3] [--match 'cubic'] [--out docs/results/udp]`. Writes fairness.md and fairness.json there. Needs iperf3 and what
// `terahaul lab path` needs.
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { BINARY, farDepot } from "./depot.mjs";
import { median, remove } from "./measure.mjs";
import { LINE, PAYLOAD, made } from "./page_paths/run.mjs";

/** More than a flow gets until a run is stopped; the depot has to have room for all that is declared. */
const bytesOf = (flows) => (flows.length > 2 ? 1.5e9 : 5e9);
/** Flows begin so long after each other, in seconds. */
const LEAD = 5;
/** Shares are taken from so long after the last flow's beginning on, for so long, in seconds. */
const SETTLED = 10;
const COUNTED = 30;

const ours = (priority = "fair") => ({ program: "terahaul", priority });
const tcp = (law) => ({ program: "iperf3", law });
/** Flows in the order in which they begin; `least` is what each has to get of the line, or of what TCP takes in the case `of`: what a law leaves
 * by itself is nobody else's. */
const CASES = [
  ...["cubic", "bbr"].flatMap((law) => [
    { name: `${law} alone`, flows: [tcp(law)], least: [0] },
    { name: `fair, then ${law}`, flows: [ours(), tcp(law)], least: [0.35, 0.35] },
    { name: `${law}, then fair`, flows: [tcp(law), ours()], least: [0.35, 0.35] },
    { name: `${law}, then background`, flows: [tcp(law), ours("background")], least: [0.85, 0], of: `${law} alone` },
  ]),
  ...[2, 4, 8].map((count) => ({ name: `${count} of ours`, flows: Array.from({ length: count }, () => ours()), jain: 0.95 })),
];

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "3" },
    match: { type: "string", default: "" },
    out: { type: "string", default: new URL("../docs/results/udp", import.meta.url).pathname },
  },
});
const cases = CASES.filter(({ name }) => new RegExp(values.match).test(name));
const work = `/dev/shm/terahaul-fairness-${process.pid}`;
mkdirSync(values.out, { recursive: true });
mkdirSync(work);
process.on("exit", () => remove(work));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130));
const NEAR = fileURLToPath(new URL("fairness/near.mjs", import.meta.url));

/** Bytes a second of each flow, while all of them ran and had settled. */
function run({ flows }) {
  const far = `iperf3 -s >/dev/null & ${farDepot(work)}`;
  const last = flows.every(({ program }) => program === "terahaul") ? 0 : (flows.length - 1) * LEAD;
  const file = made(work, { files: 1, bytes: bytesOf(flows) });
  const plan = { binary: BINARY, work, file, flows: flows.map((flow, at) => ({ ...flow, at: last && at * LEAD })), from: last + SETTLED, to: last + SETTLED + COUNTED };
  // Warm memory: what the depot writes takes no page from a virtual machine's host, which would cost ours and not iperf3.
  const path = ["--path", "filesender-100ms", "--rtt", "20ms", "--warm", "6GB"];
  const ran = spawnSync(BINARY, ["lab", "path", "--json", ...path, "--far", far, "--", "node", NEAR, JSON.stringify(plan)], { encoding: "utf8" });
  remove(`${work}/depot`);
  remove(`${work}/ready`);
  if (ran.status !== 0) throw new Error(`exit ${ran.status}: ${ran.stdout}${ran.stderr}`);
  return ran.stdout.trim().split("\n").map((line) => JSON.parse(line)).find((event) => event.rates).rates;
}

/** Jain, Chiu and Hawe, 1984: 1 where all have the same, 1/n where one has all. */
const jain = (rates) => rates.reduce((sum, rate) => sum + rate, 0) ** 2 / (rates.length * rates.reduce((sum, rate) => sum + rate * rate, 0));
const shareOf = (rate) => (rate * 8) / (LINE * PAYLOAD);

const measured = cases.map((one) => ({ ...one, runs: [] }));
// Rounds, so that what else the machine does falls on all alike.
for (let round = 0; round < Number(values.runs); round++) {
  for (const one of measured) {
    const shares = run(one).map(shareOf);
    one.runs.push(shares);
    console.log(`${one.name}: ${shares.map((share) => share.toFixed(2)).join(" ")}`);
  }
}

const all = (numbers) => numbers.length === 0 ? "–" : `${median(numbers).toFixed(2)} (${numbers.map((number) => number.toFixed(2)).join(", ")})`;
const met = (is) => (is ? "met" : "missed");
const sharing = measured.filter(({ least }) => least).map(({ name, flows, least, of, runs }) => {
  const column = (program) => flows.findIndex((flow) => flow.program === program);
  const columns = ["iperf3", "terahaul"].map(column);
  const [theirs, mine] = columns.map((at) => runs.flatMap((run) => run[at] ?? []));
  const goals = columns.map((at) => least[at] ?? 0);
  const alone = measured.find((other) => other.name === of)?.runs.map(([share]) => share);
  const whole = alone ? median(alone) : 1;
  const verdict = mine.length === 0 ? "" : met(median(theirs) >= goals[0] * whole && median(mine) >= goals[1]);
  const goal = goals.map((goal) => goal || "–").join(" / ") + (alone ? ` of ${whole.toFixed(2)}` : "");
  return `| ${name} | ${all(theirs)} | ${all(mine)} | ${goal} | ${verdict} |`;
});
const among = measured.filter(({ jain }) => jain).map(({ name, jain: goal, runs }) => {
  const sums = runs.map((run) => run.reduce((sum, share) => sum + share, 0));
  const indices = runs.map(jain);
  return `| ${name} | ${all(indices)} | ${all(sums)} | ${goal} | ${met(median(indices) >= goal)} |`;
});
writeFileSync(`${values.out}/fairness.json`, `${JSON.stringify(measured, null, 1)}\n`);
writeFileSync(`${values.out}/fairness.md`, `# Sharing a line

A line of 1 Gbit/s, 20 ms, a queue of one bandwidth-delay product: \`terahaul send --transport udp\` beside one TCP flow of iperf3, and beside itself. Shares are of the payload
that the line carries, over ${COUNTED} s, from ${SETTLED} s after the last flow's beginning on; beside TCP the second flow begins ${LEAD} s after the first. Median, and each run.
Measured by \`scripts/results.sh fairness\`.

| begins first, then | TCP's share | ours | goal | |
|---|---:|---:|---:|---|
${sharing.join("\n")}

| at once | Jain's index | all together | goal for the index | |
|---|---:|---:|---:|---|
${among.join("\n")}

What a law takes alone is in the first rows. BBR decides at each of its own probes of the round trip, every ten seconds, how much that is: from 0.7 of this line to 0.96. So what the
background leaves to it is held against that.
`);
