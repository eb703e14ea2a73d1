// The most memory that sender and depot take: a large file, a declared terabyte, a million small files.
import { spawn } from "node:child_process";
import { mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { peakMiB, remove, timed } from "../measure.mjs";
import { BINARY, client, depot as startDepot } from "../depot.mjs";
import { randomFile } from "./file.mjs";

/** `cut`: the send is not meant to end; it is stopped after `seconds`. */
async function peaks(own, path, options, seconds, cut = false) {
  const depot = await startDepot(`${own}/memory`, ["--overcommit"]);
  const sender = spawn(BINARY, ["send", "--quiet", ...options, path], { env: { ...process.env, ...depot.env }, stdio: "ignore" });
  const ended = new Promise((resolve) => sender.on("exit", resolve));
  let code = null;
  const peak = { sender: 0, depot: 0 };
  const until = Date.now() + seconds * 1000;
  let done = false;
  ended.then((exit) => ((done = true), (code = exit)));
  while (!done && Date.now() < until) {
    try {
      peak.sender = Math.max(peak.sender, peakMiB(sender.pid));
    } catch {
      // It ended between two looks.
    }
    peak.depot = Math.max(peak.depot, peakMiB(depot.child.pid));
    await wait(20);
  }
  if (done ? code !== 0 : !cut) throw new Error(`send ${path} ended with ${code}${done ? "" : ": not within its time"}`);
  sender.kill("SIGKILL");
  const durable = JSON.parse(client(depot, "list --json").out.split("\n")[0]).durable_bytes;
  depot.child.kill("SIGKILL");
  await ended;
  remove(`${own}/memory`);
  return { ...peak, durable };
}

export async function memory({ own, work, gib }) {
  const rows = {};
  rows["4 GiB file"] = [await peaks(own, randomFile(work, gib), [], 120), 256];
  const sparse = `${work}/sparse`;
  writeFileSync(sparse, "");
  truncateSync(sparse, 2 ** 40);
  rows["1 TB declared (sparse), 2 GB of it sent"] = [await peaks(own, sparse, ["--limit", "100MB"], 20, true), 256];
  remove(sparse);
  const many = `${work}/many`;
  for (let folder = 0; folder < 1000; folder++) mkdirSync(`${many}/${folder}`, { recursive: true });
  timed(`cd ${many} && seq 0 999 | xargs -P2 -I{} bash -c 'for i in {0..999}; do echo {}-$i > {}/$i; done'`);
  rows["1,000,000 small files"] = [await peaks(own, many, [], 300), 768];
  remove(many);
  console.log("\n## memory, MiB at the most\n| | sender | depot | GB durable | goal | |\n|---|---|---|---|---|---|");
  for (const [name, [peak, goal]] of Object.entries(rows)) {
    const verdict = Math.max(peak.sender, peak.depot) <= goal ? "met" : "MISSED";
    console.log(`| ${name} | ${peak.sender.toFixed(0)} | ${peak.depot.toFixed(0)} | ${(peak.durable / 1e9).toFixed(2)} | ${goal} | ${verdict} |`);
  }
  return rows;
}
