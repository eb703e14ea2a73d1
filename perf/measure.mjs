// Running commands and reading what they cost.
import { spawn, spawnSync } from "node:child_process";
import { readFileSync, rmSync } from "node:fs";

/** Runs a shell command and returns wall and CPU seconds, children included. Fails loudly. */
export function timed(command, env = {}) {
  // What the command says goes through a fourth pipe, because bash writes the times on stderr.
  const script = `TIMEFORMAT='%R %U %S'; time { ${command} ; } 2>&3`;
  const ran = spawnSync("bash", ["-o", "pipefail", "-c", script], {
    env: { ...process.env, ...env },
    stdio: ["pipe", "pipe", "pipe", "pipe"],
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  if (ran.status !== 0) {
    throw new Error(`exit ${ran.status}: ${command}\n${ran.output?.[3].slice(-2000) ?? ran.error}`);
  }
  const [wall, user, system] = ran.stderr.trim().split("\n").at(-1).split(" ").map(Number);
  return { wall, cpu: user + system, out: ran.stdout };
}

/** CPU seconds of a process and of its ended children. */
export function cpuOf(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / 100;
}

/** The most memory a process has had, in MiB. */
export function peakMiB(pid) {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
}

/** Starts a server and returns the child; `ready` is a text to wait for on stdout. */
export function start(program, args, { ready, env } = {}) {
  const child = spawn(program, args, {
    env: { ...process.env, ...env },
    stdio: ["ignore", ready ? "pipe" : "ignore", "ignore"],
  });
  if (!ready) return Promise.resolve({ child, said: "" });
  return new Promise((resolve, reject) => {
    let said = "";
    child.stdout.on("data", (bytes) => {
      said += bytes;
      if (said.includes(ready)) resolve({ child, said });
    });
    child.on("exit", (code) => reject(new Error(`${program} ended with ${code}: ${said}`)));
  });
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * Measures contenders side by side: one warm-up each, then `runs` rounds in alternation, so that what else the
 * machine does falls on all of them alike. A contender is { name, run(), before?(), after?() }.
 */
export async function compare(contenders, runs) {
  const results = new Map(contenders.map((c) => [c.name, []]));
  for (let round = -1; round < runs; round++) {
    for (const contender of contenders) {
      contender.before?.();
      const result = await contender.run();
      contender.after?.(result);
      if (round >= 0) results.get(contender.name).push(result);
    }
  }
  return new Map(
    [...results].map(([name, all]) => [
      name,
      {
        wall: median(all.map((r) => r.wall)),
        cpu: median(all.map((r) => r.cpu)),
        far: median(all.map((r) => r.far ?? 0)),
        all: all.map((r) => r.wall),
      },
    ]),
  );
}

export function remove(path) {
  rmSync(path, { recursive: true, force: true });
}

/** Prints one comparison: each peer's time over ours, against what is asked. */
export function report(title, results, ours, goals) {
  const mine = results.get(ours);
  console.log(`\n## ${title}`);
  console.log(`| | median s | all | CPU s here / far | ratio | goal | |\n|---|---|---|---|---|---|---|`);
  for (const [name, r] of results) {
    const ratio = r.wall / mine.wall;
    const goal = goals[name];
    const verdict = goal === undefined ? "" : ratio >= goal ? "met" : "MISSED";
    const times = r.all.map((t) => t.toFixed(2)).join(" ");
    const cost = `${r.cpu.toFixed(1)} / ${r.far.toFixed(1)}`;
    const shown = name === ours ? "" : `${ratio.toFixed(2)} ×`;
    console.log(`| ${name.replace("|", "\\|")} | ${r.wall.toFixed(2)} | ${times} | ${cost} | ${shown} | ${goal ?? ""} | ${verdict} |`);
  }
  return Object.fromEntries([...results].map(([name, r]) => [name, { ...r, ratio: r.wall / mine.wall, goal: goals[name] }]));
}
