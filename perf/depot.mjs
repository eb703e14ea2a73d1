// A depot and its clients, as a user runs them.
import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { cpuOf, start, timed } from "./measure.mjs";

export const BINARY = process.env.TERAHAUL ?? fileURLToPath(new URL("../target/release/terahaul", import.meta.url));

/** As a shell takes it for one word. */
export const quoted = (path) => (/^[\w./-]+$/.test(path) ? path : `'${path}'`);

/** What runs a server at the far end of an emulated path; where it is reached stands in `ready`. */
export const farServer = (work, command) => `exec ${command} >${work}/ready 2>${work}/log`;
export const farDepot = (work, binary = BINARY) => farServer(work, `${quoted(binary)} serve --json --data ${work}/depot --listen 198.18.0.2:8750`);

export async function depot(work, extra = []) {
  const data = `${work}/depot`;
  mkdirSync(data, { recursive: true });
  const args = ["serve", "--json", "--data", data, "--listen", "127.0.0.1:0", ...extra];
  const { child, said } = await start(BINARY, args, { ready: "\n" });
  const { url, token, page } = JSON.parse(said.split("\n")[0]);
  const env = { TERAHAUL_URL: url, TERAHAUL_TOKEN: token };
  return { child, url, token, page, data, env };
}

/** Runs a client command and adds what the depot spent on it. */
export function client(depot, command) {
  const before = cpuOf(depot.child.pid);
  const result = timed(`${quoted(BINARY)} ${command}`, depot.env);
  return { ...result, far: cpuOf(depot.child.pid) - before };
}

/** Sends and returns the link. */
export function send(depot, path, options = "") {
  const result = client(depot, `send --quiet ${options} ${path}`);
  return { ...result, link: result.out.trim().split("\n").at(-1) };
}

export function removeTransfer(depot, link) {
  timed(`${quoted(BINARY)} remove --quiet ${/\/t\/([a-z2-7]+)/.exec(link)[1]}`, depot.env);
}
