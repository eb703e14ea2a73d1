// What this machine can do alone, and how much of it a send reaches.
import { timed } from "../measure.mjs";
import { randomFile } from "./file.mjs";

const TOOL = new URL("../../target/release/examples/limits", import.meta.url).pathname;

export function limit({ work, gib, results }) {
  const parts = JSON.parse(timed(`${TOOL} ${randomFile(work, gib)} ${work}/limit-out`).out);
  const sender = parts.read + parts.hash + parts.seal + parts.copy_out;
  const receiver = parts.copy_in + parts.open + parts.hash + parts.write;
  const slower = Math.max(sender, receiver);
  console.log(`\n## fraction of the limit\nseconds alone for ${gib} GiB: ${JSON.stringify(parts)}`);
  console.log(`sender ${sender.toFixed(2)} s, receiver ${receiver.toFixed(2)} s`);
  const took = results.file?.ours?.send;
  if (took) {
    const fraction = slower / took;
    console.log(`send took ${took.toFixed(2)} s: ${fraction.toFixed(2)} of the limit (goal 0.85: ${fraction >= 0.85 ? "met" : "MISSED"})`);
    return { parts, sender, receiver, fraction };
  }
  return { parts, sender, receiver };
}
