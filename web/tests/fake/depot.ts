/**
 * A depot in memory, just faithful enough to try the page against situations that are hard to bring about in a real
 * one: refusals, broken connections, wrong values, a restart that loses blocks.
 */
import { randomBytes } from "node:crypto";
import { createReadStream, existsSync, readFileSync } from "node:fs";
import { type IncomingMessage, type Server, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Entry, NewEntry, PlacedEntry, SessionInfo } from "../../src/api/types";
import { AddressSpace } from "../../src/engine/address_space";
import { toHex } from "../../src/engine/hex";
import { Layout } from "../../src/engine/layout";
import { isLost } from "../../src/engine/resume";
import { BLOCK_SIZE, type BlockRun, blockOf } from "../../src/engine/units";
import { Blake3 } from "../../src/hash/blake3";

const dist = fileURLToPath(new URL("../../dist/", import.meta.url));
/** The depot's own (`crates/terahaul-depot/src/api/mod.rs`): what it forbids shows here. */
export const POLICY =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES: Record<string, string> = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

interface FakeTransfer {
  id: string;
  resumeKey?: string | undefined;
  /** The label of the token that sends it. */
  sender: string;
  secret: string;
  name: string;
  state: "open" | "complete" | "partial";
  created: number;
  expires: number;
  completed: number | null;
  entries: (Entry & { state: "pending" | "complete" | "failed" })[];
  layout: Layout;
  /** The block that may still get files. */
  openBlock: number | null;
  blocks: Map<number, Buffer>;
}

interface NewTransfer {
  name: string;
  expires_in_days?: number;
  resume_key?: string;
  entries?: NewEntry[];
  seal?: boolean;
}

class Refusal extends Error {
  constructor(readonly status: number, readonly code: string, message: string, readonly more: object = {}) {
    super(message);
  }
}

export class FakeDepot {
  readonly transfers = new Map<string, FakeTransfer>();
  readonly code = "sign-in-code";
  codeWorks = true;
  /** Without them it is as where a browser keeps none. */
  givesCookies = true;
  /** Whoever signs in. */
  session: SessionInfo = { scopes: ["own"], label: "owner", expires_in_days: 30 };
  readonly token = `tht_${"x".repeat(43)}`;
  /** Bytes of blocks taken. */
  taken = 0;
  /** Answers a `PUT` differently: returns `true` when it has. */
  onPut: (request: IncomingMessage, response: ServerResponse, blocks: number[]) => boolean = () => false;
  /** Blocks that are damaged on their way, once each. */
  readonly damaged = new Set<number>();
  /** How many blocks had not arrived whenever it was asked to finish, and whether it was to wait for them. */
  readonly finishes: { missing: number; wait: number }[] = [];
  onFinish = () => {};
  /** Answers to a `PUT` are given to this one, with the blocks that it had. */
  delayed: ((answer: () => void, blocks: readonly number[]) => void) | null = null;
  /** This block is not taken before then. */
  gate: { readonly block: number; readonly until: Promise<void> } | null = null;
  /** Finishes at once or not at all. */
  impatient = false;
  /** Keeps nothing: for measuring the page. */
  discard = false;
  readonly #server: Server;
  #sessions = new Set<string>();
  /** Whoever waits for something to arrive. */
  #waiting: (() => void)[] = [];

  private constructor(readonly blake3: Blake3) {
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch((error: unknown) => {
        const refusal = error instanceof Refusal ? error : new Refusal(500, "internal", String(error));
        request.resume();
        const { code, message } = refusal;
        const retry = refusal.status >= 500 || code === "hash_mismatch";
        json(response, refusal.status, { error: { code, message, retry, ...refusal.more } });
      });
    });
  }

  static async start(port = 0): Promise<FakeDepot> {
    const depot = new FakeDepot(await Blake3.load(readFileSync(new URL("../../blake3/blake3.wasm", import.meta.url))));
    await new Promise<void>((resolve) => depot.#server.listen(port, "127.0.0.1", resolve));
    return depot;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get page(): string {
    return `${this.url}/#signin=${this.code}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** Nobody is signed in any more. */
  endSessions(): void {
    this.#sessions.clear();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.url);
    response.setHeader("Content-Security-Policy", POLICY);
    if (!url.pathname.startsWith("/api/v1/")) return this.#file(url.pathname, response);
    const path = url.pathname.slice("/api/v1/".length).split("/");
    const method = request.method ?? "GET";
    const route = `${method} ${path[0]}${path.length > 1 ? "/*" : ""}${path[2] ? `/${path[2]}` : ""}`;
    if (route === "POST session") {
      const body = (await readJson(request)) as { code?: string; token?: string };
      const known = body.token === this.token || (this.codeWorks && body.code === this.code);
      if (!known) {
        throw new Refusal(401, "unauthorized", "The token is not known. Paste another.");
      }
      const session = randomBytes(8).toString("hex");
      this.#sessions.add(session);
      if (this.givesCookies) response.setHeader("Set-Cookie", `terahaul_session=${session}; HttpOnly; SameSite=Strict; Path=/`);
      return json(response, 200, this.session);
    }
    if (route === "POST links/*/open") {
      const transfer = this.transfers.get(path[1]!);
      const { secret } = (await readJson(request)) as { secret: string };
      if (!transfer || transfer.secret !== secret) throw new Refusal(404, "not_found", "There is no such transfer.");
      if (this.givesCookies) response.setHeader("Set-Cookie", `terahaul_link_${path[1]}=${secret}; HttpOnly; Path=/api/v1/transfers/${path[1]}`);
      return json(response, 200, this.#describe(transfer, false));
    }
    const cookies = request.headers.cookie ?? "";
    const session = /terahaul_session=([0-9a-f]+)/.exec(cookies)?.[1];
    const owner = session !== undefined && this.#sessions.has(session);
    const link = path[1] && cookies.includes(`terahaul_link_${path[1]}=${this.transfers.get(path[1])?.secret}`);
    if (!owner && !(link && method === "GET")) throw new Refusal(401, "unauthorized", "Sign in first.");
    if (method !== "GET" && request.headers["terahaul-csrf"] !== "1") throw new Refusal(403, "csrf", "No CSRF header.");
    if (route === "GET session") return json(response, 200, this.session);
    if (route === "DELETE session") {
      this.#sessions.delete(session!);
      response.writeHead(204).end();
      return;
    }
    if (route === "GET transfers") {
      const key = url.searchParams.get("resume_key");
      const all = [...this.transfers.values()].filter(({ resumeKey }) => key === null || resumeKey === key).reverse();
      const limit = Number(url.searchParams.get("limit") ?? 50);
      const start = 1 + all.findIndex(({ id }) => id === url.searchParams.get("before"));
      const page = all.slice(start, start + limit);
      const next = page.length === limit ? page.at(-1)!.id : null;
      return json(response, 200, { transfers: page.map((t) => this.#describe(t, true)), next });
    }
    if (route === "POST transfers") {
      const body = (await readJson(request)) as NewTransfer;
      const known = [...this.transfers.values()].find(({ resumeKey }) => resumeKey !== undefined && resumeKey === body.resume_key);
      const transfer = known ?? this.create(body.name, body.expires_in_days ?? this.session.expires_in_days!);
      transfer.resumeKey = body.resume_key;
      const placed = this.#append(transfer, body.entries ?? [], 0, body.seal ?? false);
      return json(response, 201, { ...this.#describe(transfer, true), placed });
    }
    const transfer = this.transfers.get(path[1] ?? "");
    if (!transfer) throw new Refusal(404, "not_found", "There is no such transfer. It may have been deleted.");
    return this.#transfer(route, path, url, transfer, owner, request, response);
  }

  create(name: string, days: number, sender = this.session.label): FakeTransfer {
    const created = Math.floor(Date.now() / 1000);
    const transfer: FakeTransfer = {
      id: randomBytes(16).toString("hex"), sender, secret: `thl_${randomBytes(32).toString("base64url")}`, name, state: "open", created,
      expires: created + days * 86400, completed: null, entries: [], layout: new Layout(), openBlock: null, blocks: new Map(),
    };
    this.transfers.set(transfer.id, transfer);
    return transfer;
  }

  async #transfer(
    route: string, path: string[], url: URL, transfer: FakeTransfer, owner: boolean,
    request: IncomingMessage, response: ServerResponse,
  ): Promise<void> {
    switch (route) {
      case "GET transfers/*":
        return json(response, 200, this.#describe(transfer, owner));
      case "PATCH transfers/*": {
        const { expires_in_days } = (await readJson(request)) as { expires_in_days: number };
        transfer.expires = Math.floor(Date.now() / 1000) + expires_in_days * 86400;
        return json(response, 200, this.#describe(transfer, owner));
      }
      case "DELETE transfers/*":
        this.transfers.delete(transfer.id);
        response.writeHead(204).end();
        return;
      case "POST transfers/*/entries": {
        const { entries, first, seal } = (await readJson(request)) as { entries: NewEntry[]; first: number; seal: boolean };
        const placed = this.#append(transfer, entries, first, seal);
        return json(response, 200, { entries: placed, total: transfer.entries.length });
      }
      case "GET transfers/*/entries": {
        const from = Number(url.searchParams.get("from"));
        const to = from + Number(url.searchParams.get("limit"));
        const total = transfer.entries.length;
        const space = spaceOf(transfer);
        const lacks = (entry: Entry) => entry.state === "pending" && this.#missing({ ...transfer, entries: [entry] }, space).size > 0;
        const entries = transfer.entries.slice(from, to).map((entry) => (lacks(entry) || entry.state === "failed" ? entry : { ...entry, state: "complete" }));
        return json(response, 200, { entries, total, next: to < total ? to : null });
      }
      case "POST transfers/*/failures": {
        const { failures } = (await readJson(request)) as { failures: { entry: number; detail: string }[] };
        for (const { entry, detail } of failures) Object.assign(transfer.entries[entry]!, { state: "failed", reason: detail });
        return json(response, 200, this.#describe(transfer, true));
      }
      case "PUT transfers/*/bytes":
        return this.#put(transfer, Number(path[3]), request, response);
      case "GET transfers/*/bytes": {
        const address = Number(path[3]);
        const length = Number(url.searchParams.get("length"));
        return send(request, response, this.#read(transfer, address, length));
      }
      case "GET transfers/*/extents": {
        const present = [...transfer.blocks.keys()].map((block): BlockRun => [block, 1]);
        return json(response, 200, { blocks: spaceOf(transfer).blockCount, received: present, durable: present });
      }
      case "POST transfers/*/finish":
        return this.#finish(transfer, Number(url.searchParams.get("wait")), response);
      case "GET transfers/*/receipt":
        return json(response, 200, { statement: { transfer: transfer.id }, entries: transfer.entries });
      case "GET transfers/*/files": {
        const entry = transfer.entries[Number(path[3])]!;
        response.setHeader("Content-Disposition", `attachment; filename*=UTF-8''${encodeURIComponent(entry.path.split("/").at(-1)!)}`);
        return send(request, response, entry.address === null ? Buffer.alloc(0) : this.#read(transfer, entry.address, entry.size));
      }
      default:
        throw new Refusal(404, "not_found", `There is no ${route}.`);
    }
  }

  #describe(transfer: FakeTransfer, signedIn: boolean): object {
    const yours = signedIn && transfer.sender === this.session.label;
    const owner = signedIn && this.session.scopes.includes("own");
    const { id, name, state, created, expires, completed, entries, openBlock } = transfer;
    const durable = [...transfer.blocks.values()].reduce((sum, block) => sum + block.length, 0);
    const arrived = entries.filter((entry) => entry.state === "complete");
    const ended = { arrived_entries: arrived.length, arrived_bytes: arrived.reduce((sum, entry) => sum + entry.size, 0) };
    return {
      id, name, state, created, expires, completed, entries: entries.length, blocks: spaceOf(transfer).blockCount, block_size: BLOCK_SIZE,
      files: entries.filter((entry) => entry.kind === "file").length, failed: entries.filter(isLost).length,
      bytes: entries.reduce((sum, entry) => sum + entry.size, 0), durable_bytes: durable, sealed: openBlock === null,
      ...(state === "open" ? {} : ended),
      yours, ...(owner ? { sender: transfer.sender } : {}),
      ...(owner || yours ? { link: `${this.url}/t/${id}#${transfer.secret}` } : {}),
    };
  }

  #append(transfer: FakeTransfer, entries: NewEntry[], first: number, seal: boolean): PlacedEntry[] {
    if (first > transfer.entries.length) throw new Refusal(409, "manifest_conflict", "Entries are missing before these.");
    const live = new Set(transfer.entries.filter(({ state }) => state !== "failed").map(({ path }) => path));
    const failed = new Map<string, Entry[]>();
    for (const earlier of transfer.entries) {
      if (earlier.state === "failed") failed.set(earlier.path, [...(failed.get(earlier.path) ?? []), earlier]);
    }
    const placed = entries.map((entry, at) => {
      const index = first + at;
      const known = transfer.entries[index];
      if (known) {
        if (known.path !== entry.path || known.size !== entry.size) throw new Refusal(409, "manifest_conflict", "Another entry is there.");
        return { entry: index, address: known.address };
      }
      if (live.has(entry.path)) {
        throw new Refusal(409, "duplicate_path", `'${entry.path}' is in the manifest already.`);
      }
      for (const earlier of failed.get(entry.path) ?? []) Object.assign(earlier, { superseded: true });
      const address = transfer.layout.append(entry.kind === "file" ? entry.size : 0);
      if (address !== null && entry.size < BLOCK_SIZE) transfer.openBlock = blockOf(address);
      transfer.entries.push({ ...entry, entry: index, address, state: address === null ? "complete" : "pending" });
      return { entry: index, address };
    });
    if (seal) Object.assign(transfer, { openBlock: null, layout: new Layout(spaceOf(transfer).blockCount) });
    transfer.state = "open";
    return placed;
  }

  async #put(transfer: FakeTransfer, address: number, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (transfer.state !== "open") throw new Refusal(409, "not_open", "The transfer is finished and takes no more.");
    const space = spaceOf(transfer);
    let block = address / BLOCK_SIZE;
    const blocks: number[] = [];
    for (let left = Number(request.headers["content-length"]); left > 0; block++) {
      if (block >= space.blockCount || block === transfer.openBlock) {
        throw new Refusal(416, "outside_manifest", "These bytes are not part of the manifest.");
      }
      blocks.push(block);
      left -= space.length(block);
    }
    if (this.onPut(request, response, blocks)) return;
    const claimed = String(request.headers["terahaul-values"] ?? "").split(",").filter(Boolean);
    const answer: { block: number; value: string }[] = [];
    let held: Buffer[] = [];
    let bytes = 0;
    let refusal: Refusal | null = null;
    for await (const piece of request as AsyncIterable<Buffer>) {
      // Browsers take an answer that comes before the end of what they send for a broken connection.
      if (refusal) continue;
      held.push(piece);
      bytes += piece.length;
      for (let next = blocks[answer.length]; next !== undefined && bytes >= space.length(next); next = blocks[answer.length]) {
        if (next === this.gate?.block) await this.gate.until;
        const length = space.length(next);
        const all = held.length === 1 ? held[0]! : Buffer.concat(held);
        const content = all.subarray(0, length);
        held = [all.subarray(length)];
        bytes -= length;
        this.taken += length;
        if (this.damaged.delete(next)) content.fill(0);
        const value = this.discard ? "" : this.#value(space, next, content);
        if (!this.discard && claimed.length > 0 && claimed[answer.length] !== value) {
          refusal = new Refusal(422, "hash_mismatch", `Block ${next} did not arrive as it was sent.`, { block: next });
          break;
        }
        if (!this.discard) transfer.blocks.set(next, Buffer.from(content));
        answer.push({ block: next, value });
      }
    }
    if (refusal) throw refusal;
    const give = () => json(response, 200, { blocks: answer });
    this.delayed ? this.delayed(give, blocks) : give();
    this.#waiting.splice(0).forEach((arrived) => arrived());
  }

  #value(space: AddressSpace, block: number, bytes: Buffer): string {
    const shape = space.shape(block);
    if (shape.kind === "piece") return toHex(this.blake3.piece(bytes, shape.offset, shape.fileSize));
    return toHex(this.blake3.packedValue(this.blake3.packed(bytes, shape.files.map(({ length }) => length))));
  }

  #missing({ entries, blocks }: FakeTransfer, space: AddressSpace): Set<number> {
    const missing = new Set<number>();
    for (const { entry, state } of entries) {
      const [first, count] = space.blocksOf(entry) ?? [0, 0];
      for (let block = first; block < first + count; block++) {
        if (state !== "failed" && !blocks.has(block) && !this.discard) missing.add(block);
      }
    }
    return missing;
  }

  async #finish(transfer: FakeTransfer, wait: number, response: ServerResponse): Promise<void> {
    const space = spaceOf(transfer);
    let missing = this.#missing(transfer, space);
    this.finishes.push({ missing: missing.size, wait });
    this.onFinish();
    const end = performance.now() + wait * 1000;
    while (missing.size > 0 && performance.now() < end && !this.impatient && !response.destroyed) {
      await Promise.race([new Promise<void>((arrived) => this.#waiting.push(arrived)), setTimeout(100)]);
      missing = this.#missing(transfer, space);
    }
    if (response.destroyed) return;
    if (missing.size > 0) {
      throw new Refusal(409, "incomplete", "Some blocks are missing.", { missing: [...missing].map((block) => [block, 1]) });
    }
    for (const entry of transfer.entries) {
      if (entry.state === "failed") continue;
      entry.state = "complete";
      if (entry.kind === "file" && !this.discard) Object.assign(entry, { blake3: this.#fileHash(transfer, space, entry) });
    }
    transfer.completed = Math.floor(Date.now() / 1000);
    transfer.state = transfer.entries.some(isLost) ? "partial" : "complete";
    json(response, 200, this.#describe(transfer, true));
  }

  #fileHash(transfer: FakeTransfer, space: AddressSpace, { entry, address, size }: Entry): string {
    if (address === null) return toHex(this.blake3.file(new Uint8Array()));
    if (size < BLOCK_SIZE) return toHex(this.blake3.file(this.#read(transfer, address, size)));
    const [first, count] = space.blocksOf(entry)!;
    const values = Array.from({ length: count }, (_, at) =>
      this.blake3.piece(transfer.blocks.get(first + at)!, at * BLOCK_SIZE, size),
    );
    return toHex(this.blake3.fileFromPieces(values));
  }

  #read(transfer: FakeTransfer, address: number, length: number): Buffer {
    const parts: Buffer[] = [];
    for (let at = address; at < address + length; ) {
      const block = Math.floor(at / BLOCK_SIZE);
      const offset = at - block * BLOCK_SIZE;
      const part = transfer.blocks.get(block)!.subarray(offset, offset + address + length - at);
      parts.push(part);
      at += part.length;
    }
    return Buffer.concat(parts);
  }

  #file(path: string, response: ServerResponse): void {
    const name = path.startsWith("/assets/") ? path : "/index.html";
    const file = join(dist, name);
    if (name.includes("..") || !existsSync(file)) throw new Refusal(404, "not_found", "There is no such page.");
    response.setHeader("Content-Type", TYPES[extname(file)] ?? "application/octet-stream");
    createReadStream(file).pipe(response);
  }
}

function spaceOf(transfer: FakeTransfer): AddressSpace {
  const space = new AddressSpace();
  for (const { entry, address, size } of transfer.entries) if (address !== null) space.append(entry, address, size);
  return space;
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = [];
  for await (const part of request as AsyncIterable<Buffer>) parts.push(part);
  return JSON.parse(Buffer.concat(parts).toString("utf8"));
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
}

function send(request: IncomingMessage, response: ServerResponse, bytes: Buffer): void {
  response.setHeader("Content-Type", "application/octet-stream");
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
  if (!range) {
    response.writeHead(200, { "Content-Length": bytes.length }).end(bytes);
    return;
  }
  const first = Number(range[1]);
  const last = Math.min(range[2] ? Number(range[2]) : Infinity, bytes.length - 1);
  response.writeHead(206, { "Content-Range": `bytes ${first}-${last}/${bytes.length}` }).end(bytes.subarray(first, last + 1));
}
