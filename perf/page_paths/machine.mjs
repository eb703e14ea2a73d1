// What was measured on, and with which versions.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import { setTimeout as wait } from "node:timers/promises";

export function machine(binary) {
  const said = (program) => spawnSync(program, ["--version"], { encoding: "utf8" }).stdout?.trim().split("\n")[0] ?? "";
  const system = /^PRETTY_NAME="?(.*?)"?$/m.exec(readFileSync("/etc/os-release", "utf8"))?.[1] ?? "";
  return {
    processor: cpus()[0].model,
    cores: cpus().length,
    memory: totalmem(),
    kernel: `Linux ${release()}`,
    system,
    congestion_control: readFileSync("/proc/sys/net/ipv4/tcp_congestion_control", "utf8").trim(),
    // The most that one TCP connection of a program that does not ask may have under way, in bytes.
    send_buffer: Number(readFileSync("/proc/sys/net/ipv4/tcp_wmem", "utf8").trim().split(/\s+/)[2]),
    // Two spaces and more are Chromium's, before what Debian adds.
    browser: said(process.env.CHROMIUM ?? "/usr/bin/chromium").replace(/\s{2,}/g, " "),
    terahaul: said(binary).replace(/^terahaul /, ""),
    // Where the page came from, when it was not the one in the program.
    page: process.env.PAGE === "dist" ? "web/dist" : "the program's",
  };
}

/** The share of the processors that did nothing for half a second. */
export async function idleShare() {
  const before = ticks();
  await wait(500);
  const after = ticks();
  return +((after.idle - before.idle) / (after.all - before.all)).toFixed(2);
}

function ticks() {
  const each = cpus().map(({ times }) => times);
  const sum = (pick) => each.reduce((total, times) => total + pick(times), 0);
  return { idle: sum(({ idle }) => idle), all: sum((times) => Object.values(times).reduce((a, b) => a + b)) };
}
