// One run: an emulated path, a depot of its own at the far end, the page in headless Chromium at the near one.
import { spawn } from "node:child_process";
import { createCipheriv } from "node:crypto";
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { BINARY, farDepot, farServer, quoted } from "../depot.mjs";
import { remove } from "../measure.mjs";

const DISCARD = fileURLToPath(new URL("../../target/release/examples/discard", import.meta.url));
const WEB = fileURLToPath(new URL("../../web", import.meta.url));
/** The line's rate in bits a second, IP headers included, where a cell names no other. */
export const LINE = 1e9;
/** Of a packet of 1500 bytes, what TCP carries: 20 bytes are IP's, 20 TCP's, 12 its timestamps. */
export const PAYLOAD = 1448 / 1500;

/** Memory that files, depot and browser take. */
const WARM = "6GB";

/** Bytes that cannot be compressed, the same each time: a file, or a folder of files of one size. */
export function made(work, { files, bytes }) {
  const path = `${work}/${files}-${bytes}`;
  if (existsSync(path)) return path;
  const cipher = createCipheriv("aes-128-ctr", Buffer.alloc(16, 7), Buffer.alloc(16));
  const zeros = Buffer.alloc(1 << 20);
  const write = (name, size) => {
    const file = openSync(name, "w");
    for (let left = size; left > 0; left -= zeros.length) writeSync(file, cipher.update(zeros.subarray(0, Math.min(left, zeros.length))));
    closeSync(file);
  };
  if (files === 1) {
    write(path, bytes);
  } else {
    mkdirSync(path);
    for (let at = 0; at < files; at++) write(`${path}/${String(at).padStart(5, "0")}`, bytes / files);
  }
  return path;
}

/** The command of a cell, as a list of arguments. A sign-in works once, so every run has a depot of its own. */
export function commandOf(cell, binary, work, discard = DISCARD) {
  const rate = cell.rate ? ["--rate", `${cell.rate / 1e6}mbit`] : [];
  const path = ["--path", "filesender-100ms", ...rate, "--rtt", `${cell.rtt}ms`, "--cc", cell.cc, "--warm", WARM];
  const far = cell.without === "depot" ? farServer(work, `${quoted(discard)} ${work}/depot 198.18.0.2:8750`) : farDepot(work, binary);
  const near = ["node", "--import", "tsx", "tests/bench/page.ts", `${work}/${cell.source.files}-${cell.source.bytes}`, switchesOf(cell), `${work}/ready`];
  return [binary, "lab", "path", "--json", ...path, "--far", far, "--", ...near];
}

function switchesOf({ chunk, requests, without }) {
  const left = { depot: "nocompare=1", hashing: "nohash=1" }[without];
  return [left, chunk && `chunk=${chunk}`, requests && `channels=${requests}`].filter(Boolean).join("&");
}

/** Runs `cell` once; `children` has the running command meanwhile. */
export async function run(cell, work, children) {
  made(work, cell.source);
  const [program, ...args] = commandOf(cell, BINARY, work);
  const child = spawn(program, args, { cwd: WEB, stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  let said = "";
  let complaints = "";
  child.stdout.on("data", (bytes) => (said += bytes));
  child.stderr.on("data", (bytes) => (complaints += bytes));
  const code = await new Promise((resolve, reject) => child.on("error", reject).on("close", resolve));
  children.delete(child);
  const log = existsSync(`${work}/log`) ? readFileSync(`${work}/log`, "utf8") : "";
  remove(`${work}/depot`);
  remove(`${work}/ready`);
  if (code !== 0) throw new Error(`exit ${code}: ${[program, ...args].join(" ")}\n${complaints}\n${log}`);
  const events = said.trim().split("\n").map((line) => JSON.parse(line));
  const { seconds, choosing_seconds } = events.find((event) => event.seconds !== undefined);
  const { counters, stolen } = events.find((event) => event.event === "done");
  return { seconds, choosing_seconds, counters, stolen };
}
