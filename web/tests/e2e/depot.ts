/** The depot that the tests talk to: the real one as soon as it is built, else the one in memory. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { FakeDepot } from "../fake/depot";

export interface RunningDepot {
  readonly real: boolean;
  /** The page's address without a sign-in. */
  readonly url: string;
  readonly token: string;
  /** The page's address with a one-time sign-in. */
  readonly page: string;
  stop(): Promise<void>;
}

const binary = process.env["TERAHAUL"] ?? fileURLToPath(new URL("../../../target/release/terahaul", import.meta.url));

export const haveReal = existsSync(binary) && process.env["DEPOT"] !== "fake";

export async function startDepot(data: string): Promise<RunningDepot> {
  if (haveReal) return startReal(data);
  const fake = await FakeDepot.start();
  return { real: false, url: fake.url, token: fake.token, page: fake.page, stop: async () => fake.close() };
}

/** Starts `terahaul serve`; its first line of output says where it is. */
export async function startReal(data: string): Promise<RunningDepot> {
  const child: ChildProcess = spawn(binary, ["serve", "--json", "--data", data, "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, RUST_LOG: process.env["RUST_LOG"] ?? "error" } });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const lines = createInterface({ input: child.stdout! });
  const first = await new Promise<string>((resolve, reject) => {
    lines.once("line", resolve);
    child.once("exit", (code) => reject(new Error(`terahaul serve ended with ${code}`)));
  });
  const { page, token } = JSON.parse(first) as { page: string; token: string };
  return {
    real: true,
    url: new URL(page).origin,
    token,
    page,
    stop: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
