// Standard input: lines of a number of channels and what the lab said of one run. Standard output: the table in Markdown.
import { readFileSync } from "node:fs";

const runs = new Map();
for (const line of readFileSync(0, "utf8").trim().split("\n")) {
  const found = (pattern) => Number(pattern.exec(line)?.[1]);
  const count = found(/^(\d+) /);
  const there = line.slice(line.indexOf('"near_to_far"'));
  const of = (name) => Number(new RegExp(`"${name}":(\\d+)`).exec(there)?.[1]);
  const run = { seconds: found(/"milliseconds":(\d+)/) / 1000, sent: of("sent"), dropped: of("queue_dropped") };
  runs.set(count, [...(runs.get(count) ?? []), run]);
}
const median = (numbers) => numbers.sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const rows = [...runs].map(([count, all]) => {
  const seconds = median(all.map((run) => run.seconds));
  const dropped = Math.max(...all.map((run) => run.dropped / run.sent));
  return `| ${count} | ${seconds.toFixed(2)} | ${(8000 / seconds).toFixed(0)} | ${all.length} | ${(100 * dropped).toFixed(3)} % |`;
});
console.log(`# UDP channels: one to sixteen

One gigabyte to a depot over \`transatlantic\` (1 Gbit/s, 80 ms, one packet in 10,000 lost), \`terahaul send --transport udp --channels N\`, from the start of the program to the
checked receipt. Random bytes in memory, in rounds. What is dropped is what the transfer itself makes the path's queue lose, at most in any run; what the
path loses by itself is not in it. Measured by \`scripts/results.sh channels\`.

| channels | seconds, median | Mbit/s | runs | dropped in the queue |
|---:|---:|---:|---:|---:|
${rows.join("\n")}

All channels of a path share one rate controller, so more of them are neither faster nor slower: they are threads and sockets for machines with many
processors. MCDTP's published averages for 1, 2, 4 and 8 channels are 17.9, 18.1, 2.7 and 0 kbit/s, with 14, 20, 88 and 100 % of the packets lost:
its runtime was given several tasks for each packet, and stalled at eight channels (its report, table 5.1 and section 5.3).`);
