#!/usr/bin/env node
// One gigabyte over 1, 2, 4, 8 and 16 UDP channels, as in MCDTP's report: `node perf/channels.mjs [--runs 3] [--out
// docs/results/udp]`. Writes channels.md there. Needs what `terahaul lab path` needs.
import { spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { BINARY, farDepot } from "./depot.mjs";
import { median, remove } from "./measure.mjs";
import { made } from "./page_paths/run.mjs";

const BYTES = 1e9;
const CHANNELS = [1, 2, 4, 8, 16];

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "3" },
    out: { type: "string", default: new URL("../docs/results/udp", import.meta.url).pathname },
  },
});
const work = `/dev/shm/terahaul-channels-${process.pid}`;
mkdirSync(values.out, { recursive: true });
mkdirSync(work);
process.on("exit", () => remove(work));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130));
const file = made(work, { files: 1, bytes: BYTES });

/** Run at the near end: its folder, the file and the number of channels are its arguments. */
const SEND = `
  export TERAHAUL_URL=$(sed 's/.*"url":"\\([^"]*\\)".*/\\1/;q' "$1/ready") TERAHAUL_TOKEN=$(cat "$1/depot/owner-token")
  begun=$(date +%s%N)
  "$0" send --json --transport udp --channels "$3" "$2" >"$1/said" 2>&1 || { cat "$1/said" >&2; exit 1; }
  echo "{\\"milliseconds\\":$((($(date +%s%N) - begun) / 1000000))}"`;

function run(channels) {
  const near = ["bash", "-c", SEND, BINARY, work, file, channels];
  const ran = spawnSync(BINARY, ["lab", "path", "--json", "--path", "transatlantic", "--far", farDepot(work), "--", ...near.map(String)], { encoding: "utf8" });
  remove(`${work}/depot`);
  remove(`${work}/ready`);
  if (ran.status !== 0) throw new Error(`exit ${ran.status} with ${channels} channels: ${ran.stderr}`);
  const events = ran.stdout.trim().split("\n").map((line) => JSON.parse(line));
  const { milliseconds } = events.find((event) => event.milliseconds !== undefined);
  const { near_to_far: out } = events.find((event) => event.event === "done").counters;
  return { seconds: milliseconds / 1000, dropped: out.queue_dropped / out.sent };
}

const runs = new Map(CHANNELS.map((channels) => [channels, []]));
// Rounds, so that what else the machine does falls on all alike.
for (let round = 0; round < Number(values.runs); round++) {
  for (const channels of CHANNELS) {
    const ran = run(channels);
    runs.get(channels).push(ran);
    console.log(`${channels} channels: ${ran.seconds} s`);
  }
}
const rows = [...runs].map(([channels, all]) => {
  const seconds = median(all.map((ran) => ran.seconds));
  const dropped = 100 * Math.max(...all.map((ran) => ran.dropped));
  return `| ${channels} | ${seconds.toFixed(2)} | ${((BYTES * 8) / seconds / 1e6).toFixed(0)} | ${all.length} | ${dropped.toFixed(3)} % |`;
});
writeFileSync(`${values.out}/channels.md`, `# UDP channels: one to sixteen

One gigabyte to a depot over \`transatlantic\` (1 Gbit/s, 80 ms, one packet in 10,000 lost), \`terahaul send --transport udp --channels N\`, from the start of the program to the
checked receipt. Random bytes in memory, in rounds. What is dropped is what the transfer itself makes the path's queue lose, at most in any run; what the
path loses by itself is not in it. Measured by \`scripts/results.sh channels\`.

| channels | seconds, median | Mbit/s | runs | dropped in the queue |
|---:|---:|---:|---:|---:|
${rows.join("\n")}

All channels of a path share one rate controller, so more of them are neither faster nor slower: they are threads and sockets for machines with many
processors. MCDTP's published averages for 1, 2, 4 and 8 channels are 17.9, 18.1, 2.7 and 0 kbit/s, with 14, 20, 88 and 100 % of the packets lost:
its runtime was given several tasks for each packet, and stalled at eight channels (its report, table 5.1 and section 5.3).
`);
