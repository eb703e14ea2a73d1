// What this machine can do alone, and how much of it a send and a receive reach. Each round measures both, one after
// the other: the machine's mood changes more from minute to minute than they differ.
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { median, remove, timed } from "../measure.mjs";
import { client, quoted, removeTransfer, send } from "../depot.mjs";
import { randomFile } from "./file.mjs";

const TOOL = fileURLToPath(new URL("../../target/release/examples/limits", import.meta.url));
const GOAL = 0.85;

export function limit({ work, depot, runs, gib }) {
  const source = randomFile(work, gib);
  const target = `${work}/dst`;
  const rounds = [];
  for (let round = -1; round < runs; round++) {
    const parts = JSON.parse(timed(`${quoted(TOOL)} ${source} ${work}/limit-out`).out);
    const sender = parts.read + parts.hash + parts.seal + parts.copy_out;
    const receiver = parts.copy_in + parts.open + parts.hash + parts.write;
    const sent = send(depot, source);
    remove(target);
    mkdirSync(target);
    const received = client(depot, `receive --quiet '${sent.link}' ${target}`);
    removeTransfer(depot, sent.link);
    if (round >= 0) rounds.push({ parts, sender, receiver, send: sent.wall, receive: received.wall });
  }
  remove(target);
  const of = (pick) => median(rounds.map(pick));
  const parts = Object.fromEntries(Object.keys(rounds[0].parts).map((name) => [name, of((r) => r.parts[name])]));
  const slower = (r) => Math.max(r.sender, r.receiver);
  const fractions = { send: of((r) => slower(r) / r.send), receive: of((r) => slower(r) / r.receive) };
  console.log(`\n## fraction of the limit, ${gib} GiB file\nseconds alone: ${JSON.stringify(parts)}`);
  console.log(`sender ${of((r) => r.sender).toFixed(2)} s, receiver ${of((r) => r.receiver).toFixed(2)} s`);
  for (const [name, fraction] of Object.entries(fractions)) {
    const took = rounds.map((r) => r[name].toFixed(2)).join(" ");
    const verdict = name === "send" ? ` (goal ${GOAL}: ${fraction >= GOAL ? "met" : "MISSED"})` : "";
    console.log(`${name} took ${took} s: ${fraction.toFixed(2)} of the limit${verdict}`);
  }
  return { rounds, fractions };
}
