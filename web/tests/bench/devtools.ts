// Chromium by its own protocol, and as little of it as will do. Not by Playwright, which always has the browser report what
// it sends: bodies that are bytes are then reported whole, as text, and go out at a tenth of their speed.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ARGUMENTS, EXECUTABLE } from "../chromium";

type Message = { id?: number; method?: string; params?: Record<string, unknown>; result?: unknown; error?: { message: string } };

const DIST = fileURLToPath(new URL("../../dist/", import.meta.url));

export class Chromium {
  readonly #waiting = new Map<number, { resolve(result: never): void; reject(error: Error): void }>();
  readonly #process: ChildProcess;
  readonly #profile: string;
  #session: string | undefined;
  #next = 1;
  #handle: (method: string, params: Record<string, unknown>) => void = () => {};

  private constructor(profile: string) {
    this.#profile = profile;
    this.#process = spawn(EXECUTABLE, [...ARGUMENTS, "--headless", "--ignore-certificate-errors", "--remote-debugging-pipe", `--user-data-dir=${profile}`, "about:blank"], {
      stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
    });
    let rest = "";
    (this.#process.stdio[4] as Duplex).setEncoding("utf8").on("data", (text: string) => {
      const messages = (rest + text).split("\0");
      rest = messages.pop()!;
      for (const message of messages) this.#handleMessage(JSON.parse(message) as Message);
    });
  }

  /** One page, in a profile of its own. */
  static async start(): Promise<Chromium> {
    const chromium = new Chromium(await mkdtemp(join(tmpdir(), "terahaul-profile-")));
    const { targetInfos } = await chromium.send<{ targetInfos: { type: string; targetId: string }[] }>("Target.getTargets");
    const { targetId } = targetInfos.find(({ type }) => type === "page")!;
    chromium.#session = (await chromium.send<{ sessionId: string }>("Target.attachToTarget", { targetId, flatten: true })).sessionId;
    await chromium.send("Page.enable");
    return chromium;
  }

  /** Takes the page from `dist/` instead of from the depot, until `leaveAlone`. */
  async serveFromDist(): Promise<void> {
    // Workers are made when the page sends, which is later.
    const workers = (await readdir(`${DIST}assets`)).filter((name) => name.startsWith("hash-worker-"));
    const worker = await readFile(`${DIST}assets/${workers[0]}`, "utf8");
    await this.prepare(`globalThis.Worker = class extends Worker { constructor() { super(URL.createObjectURL(new Blob([${JSON.stringify(worker)}]))) } }`);
    this.#handle = (method, params) => {
      if (method === "Fetch.requestPaused") void this.#fulfil(params as { requestId: string; request: { url: string } });
    };
    await this.send("Fetch.enable", { patterns: ["*://*/", "*://*/\\?*", "*://*/assets/*"].map((urlPattern) => ({ urlPattern })) });
  }

  /** From here on what the page asks for takes its usual way: nothing of it would be faster on the other. */
  async leaveAlone(): Promise<void> {
    await this.send("Fetch.disable");
  }

  /** Has `script` run before those of each page that is loaded later. */
  async prepare(script: string): Promise<void> {
    await this.send("Page.addScriptToEvaluateOnNewDocument", { source: script });
  }

  async open(url: string): Promise<void> {
    await this.send("Page.navigate", { url });
  }

  /** What `expression` is in the page, once it is there and true. */
  async until<T>(expression: string, milliseconds = 30_000): Promise<T> {
    const end = performance.now() + milliseconds;
    for (;;) {
      const { result, exceptionDetails } = await this.send<{ result: { value: T }; exceptionDetails?: unknown }>("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
      if (!exceptionDetails && result.value) return result.value;
      if (performance.now() > end) throw new Error(`not within ${milliseconds} ms: ${expression}`);
      await wait(200);
    }
  }

  /** Drops files and folders of this machine on the page, in the middle of what `selector` finds. */
  async drop(files: string[], selector: string): Promise<void> {
    const at = await this.until<{ x: number; y: number }>(
      `(() => { const { x, y, width, height } = document.querySelector("${selector}").getBoundingClientRect(); return { x: x + width / 2, y: y + height / 2 }; })()`,
    );
    for (const type of ["dragEnter", "dragOver", "drop"]) {
      await this.send("Input.dispatchDragEvent", { type, ...at, data: { items: [], files, dragOperationsMask: 1 } });
    }
  }

  async close(): Promise<void> {
    const gone = new Promise((resolve) => this.#process.once("close", resolve));
    this.#session = undefined;
    await this.send("Browser.close");
    await gone;
    await rm(this.#profile, { recursive: true, force: true });
  }

  send<T>(method: string, params: object = {}): Promise<T> {
    return new Promise((resolve, reject) => {
      const id = this.#next++;
      this.#waiting.set(id, { resolve, reject });
      (this.#process.stdio[3] as Duplex).write(`${JSON.stringify({ id, method, params, sessionId: this.#session })}\0`);
    });
  }

  #handleMessage({ id, method, params, result, error }: Message): void {
    if (id === undefined) {
      this.#handle(method!, params!);
      return;
    }
    if (error) this.#waiting.get(id)?.reject(new Error(error.message));
    else this.#waiting.get(id)?.resolve(result as never);
    this.#waiting.delete(id);
  }

  async #fulfil({ requestId, request }: { requestId: string; request: { url: string } }): Promise<void> {
    const { pathname } = new URL(request.url);
    const name = pathname === "/" ? "index.html" : pathname.slice(1);
    const type = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml" }[name.split(".").pop()!] ?? "";
    const body = (await readFile(join(DIST, name))).toString("base64");
    await this.send("Fetch.fulfillRequest", { requestId, responseCode: 200, responseHeaders: [{ name: "Content-Type", value: type }], body });
  }
}
