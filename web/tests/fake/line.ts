// A long line in simulated time, shared by an upload's requests: what a browser's connections make of it.
import type { Chunk, ChunkId, Upload } from "../../src/engine/upload";

export interface Line {
  /** Bytes a millisecond that it carries. */
  readonly rate: number;
  /** Milliseconds. */
  readonly roundTrip: number;
  /** Bytes that one connection may have under way: a kernel's send buffer. */
  readonly window: number;
  /** How well each connection competes with the others: one number a connection. */
  readonly weights: readonly number[];
  /** Bytes a millisecond at which chunks are read and hashed, one after the other, before they can be sent. */
  readonly reads: number;
  /** Bytes a millisecond at which the page gives requests to the browser, one after the other. */
  readonly gives: number;
}

/** What is done to chunks one after the other, each when the one before is through. */
class Stage {
  readonly #inside: { chunk: Chunk; done: number }[] = [];

  constructor(readonly rate: number) {}

  take(chunk: Chunk, now: number): void {
    this.#inside.push({ chunk, done: Math.max(this.#inside.at(-1)?.done ?? 0, now) + chunk.bytes / this.rate });
  }

  /** The next one that is through. */
  poll(now: number): Chunk | undefined {
    return this.#inside[0] && this.#inside[0].done <= now ? this.#inside.shift()!.chunk : undefined;
  }
}

interface Connection {
  chunk: Chunk | null;
  left: number;
  /** When the answer is here; `null` while the body is being sent. */
  answered: number | null;
  /** Bytes a round trip, doubled by each. */
  window: number;
}

const STEP = 5;
/** How often the page looks for what is to be called off. */
const TICK = 500;
/** What a connection begins with: ten packets. */
const FIRST_WINDOW = 14_480;

export interface Sent {
  /** Milliseconds from the first request to the last answer. */
  readonly time: number;
  readonly requests: number;
  /** Milliseconds that a call would have had to wait for a connection, at most. */
  readonly wait: number;
}

/** Carries all that `upload` has to send. The upload does not hash. */
export function carry(upload: Upload, line: Line): Sent {
  const connections: Connection[] = line.weights.map(() => ({ chunk: null, left: 0, answered: null, window: FIRST_WINDOW }));
  const read = new Map<ChunkId, Chunk>();
  const reading = new Stage(line.reads);
  const giving = new Stage(line.gives);
  /** What the browser was given and has no connection for. */
  let waiting: Chunk[] = [];
  const calledOff = new Set<ChunkId>();
  let requests = 0;
  let [free, wait] = [0, 0];
  for (let now = 0; ; now += STEP) {
    for (const connection of connections) {
      if (!connection.chunk || connection.answered === null || connection.answered > now) continue;
      const { run, id } = connection.chunk;
      connection.chunk = null;
      upload.handleReceived(id, Array.from({ length: run[1] }, (_, at) => ({ block: run[0] + at, value: "" })), now, 0);
    }
    if (upload.delivered) return { time: now, requests, wait };
    for (const id of now % TICK === 0 ? upload.pollSurplus(now) : []) {
      calledOff.add(id);
      waiting = waiting.filter((chunk) => chunk.id !== id);
      for (const connection of connections) if (connection.chunk?.id === id) Object.assign(connection, { chunk: null, window: FIRST_WINDOW });
      upload.handleAborted(id, now);
    }
    for (let chunk = upload.pollRead(now); chunk; chunk = upload.pollRead(now)) reading.take(chunk, now);
    for (let chunk = reading.poll(now); chunk; chunk = reading.poll(now)) {
      upload.handleRead(chunk.id, [], now);
      read.set(chunk.id, chunk);
    }
    for (let id = upload.pollSend(now); id !== null; id = upload.pollSend(now)) {
      giving.take(read.get(id)!, now);
      read.delete(id);
      requests++;
    }
    for (let chunk = giving.poll(now); chunk; chunk = giving.poll(now)) if (!calledOff.has(chunk.id)) waiting.push(chunk);
    for (const idle of connections.filter((connection) => !connection.chunk)) {
      const chunk = waiting.shift();
      if (chunk) Object.assign(idle, { chunk, left: chunk.bytes, answered: null });
    }
    if (connections.some((connection) => !connection.chunk)) free = now;
    wait = Math.max(wait, now - free);
    share(connections, line, (connection, bytes) => {
      connection.left -= bytes;
      connection.window = Math.min(line.window, connection.window * 2 ** (STEP / line.roundTrip));
      upload.handleProgress(connection.chunk!.id, connection.chunk!.bytes - connection.left, now);
      if (connection.left <= 0) connection.answered = now + line.roundTrip;
    });
  }
}

/** What each connection sends in a step: its share by weight, its window at most, and what others leave. */
function share(connections: Connection[], line: Line, send: (connection: Connection, bytes: number) => void): void {
  let room = line.rate * STEP;
  let open = connections
    .map((connection, at) => ({ connection, weight: line.weights[at]!, most: Math.min(connection.left, (connection.window / line.roundTrip) * STEP) }))
    .filter(({ connection }) => connection.chunk && connection.answered === null)
    .sort((a, b) => a.most / a.weight - b.most / b.weight);
  for (let next = open.shift(); next; next = open.shift()) {
    const weights = open.reduce((sum, { weight }) => sum + weight, next.weight);
    const bytes = Math.min(next.most, (room * next.weight) / weights);
    room -= bytes;
    send(next.connection, bytes);
  }
}
