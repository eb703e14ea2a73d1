// The near end of one run of fairness.mjs: begins the flows of a plan, and prints how fast each was between two moments.
import { spawn } from "node:child_process";
import { linkSync, readFileSync, unlinkSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as wait } from "node:timers/promises";

const { binary, work, file, flows, from, to } = JSON.parse(process.argv[2]);
const url = JSON.parse(readFileSync(`${work}/ready`, "utf8").split("\n")[0]).url;
const token = readFileSync(`${work}/depot/owner-token`, "utf8").trim();
const began = performance.now();
const now = () => (performance.now() - began) / 1000;

/** A flow's bytes so far by time, as its program tells them about once a second. */
function begin({ program, priority, law }, at) {
  const told = [[now(), 0]];
  // Under a name of its own, or all would send into one transfer.
  const own = `${file}-${at}`;
  linkSync(file, own);
  const child = program === "terahaul"
    ? spawn(binary, ["send", "--json", "--transport", "udp", "--priority", priority, own], { env: { ...process.env, TERAHAUL_URL: url, TERAHAUL_TOKEN: token }, stdio: ["ignore", "pipe", "inherit"] })
    : spawn("iperf3", ["-c", "198.18.0.2", "-C", law, "-t", "600", "-i", "1", "-f", "k", "--forceflush"], { stdio: ["ignore", "pipe", "inherit"] });
  createInterface({ input: child.stdout }).on("line", (line) => {
    if (program === "terahaul") {
      const event = JSON.parse(line);
      if (event.event === "progress") told.push([now(), event.moved_bytes]);
    } else {
      const kilobits = /([\d.]+) Kbits\/sec/.exec(line)?.[1];
      const [at, bytes] = told.at(-1);
      if (kilobits) told.push([now(), bytes + (Number(kilobits) * 125) * (now() - at)]);
    }
  });
  return { child, own, told };
}

/** What had been told by then, in proportion between two tellings. */
function bytesAt(told, at) {
  const after = told.findIndex(([time]) => time >= at);
  if (after < 1) throw new Error(`a flow said nothing until ${at} s: ${JSON.stringify(told.at(-1))}`);
  const [[before, low], [later, high]] = told.slice(after - 1, after + 1);
  return low + ((high - low) * (at - before)) / (later - before);
}

const running = [];
for (const [at, flow] of flows.entries()) {
  await wait(1000 * Math.max(0, flow.at - now()));
  running.push(begin(flow, at));
}
// Two tellings more than are looked at.
await wait(1000 * (to + 2.5 - now()));
for (const { child, own } of running) {
  child.kill("SIGKILL");
  unlinkSync(own);
}
console.log(JSON.stringify({ rates: running.map(({ told }) => (bytesAt(told, to) - bytesAt(told, from)) / (to - from)) }));
process.exit(0);
