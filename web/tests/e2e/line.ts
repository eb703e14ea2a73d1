/** A slow or broken line between the browser and a depot. */
import { type AddressInfo, type Server, type Socket, connect, createServer } from "node:net";
import type { RunningDepot } from "./depot";

export class Line {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** When the line is free for the next byte towards the depot. */
  #free = 0;
  /** While `false`, nothing gets through and what was connected is cut. */
  #up = true;
  /** Bytes that may still go towards the depot. */
  #allowed = Infinity;
  readonly #waiting: (() => void)[] = [];
  #reached = () => {};
  /** Bytes that it has carried towards the browser, and how many it may have when it is cut. */
  carried = 0;
  #cutAt = Infinity;
  #handleCut = () => {};
  #handleRefusal = () => {};

  private constructor(
    /** Another may come in its place. */
    public depot: RunningDepot,
    /** Towards the depot; the other way is not held back. */
    readonly bytesPerSecond: number,
  ) {
    this.#server = createServer((client) => this.#connect(client));
  }

  static async to(depot: RunningDepot, bytesPerSecond: number): Promise<Line> {
    const line = new Line(depot, bytesPerSecond);
    await new Promise<void>((resolve) => line.#server.listen(0, "127.0.0.1", resolve));
    return line;
  }

  /** An address of the depot, by way of this line. */
  over(address: string): string {
    const url = new URL(address);
    url.port = String((this.#server.address() as AddressInfo).port);
    return url.href;
  }

  /** Lets about so many bytes more go towards the depot and then none, until the line is cut or mended. Resolves when
   * that is reached: a page that is watched through its debugger may be through before one has seen it half-way. */
  hold(bytes: number): Promise<void> {
    this.#allowed = bytes;
    return new Promise((resolve) => (this.#reached = resolve));
  }

  /** Lets about so many bytes more go towards the browser, and is cut then. */
  cutAfter(bytes: number): Promise<void> {
    this.#cutAt = this.carried + bytes;
    return new Promise((resolve) => (this.#handleCut = resolve));
  }

  cut(): void {
    this.#up = false;
    this.#cutAt = Infinity;
    for (const socket of this.#sockets) socket.destroy();
    this.#release();
  }

  /** Resolves when somebody next tries in vain to connect over the line, which is cut. */
  refusal(): Promise<void> {
    return new Promise((resolve) => (this.#handleRefusal = resolve));
  }

  mend(): void {
    this.#up = true;
    this.#release();
  }

  close(): void {
    this.cut();
    this.#server.close();
  }

  #release(): void {
    this.#allowed = Infinity;
    for (const go of this.#waiting.splice(0)) go();
  }

  #connect(client: Socket): void {
    if (!this.#up) {
      client.destroy();
      this.#handleRefusal();
      return;
    }
    const depot = connect(Number(new URL(this.depot.url).port), "127.0.0.1");
    for (const [socket, other] of [[client, depot], [depot, client]] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => socket.destroy());
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    depot.on("data", (bytes) => {
      this.carried += bytes.length;
      if (!client.write(bytes)) depot.pause();
      if (this.carried < this.#cutAt) return;
      this.cut();
      this.#handleCut();
    });
    depot.on("end", () => client.end());
    client.on("drain", () => depot.resume());
    client.on("data", (bytes) => {
      const now = performance.now();
      this.#free = Math.max(this.#free, now) + (bytes.length / this.bytesPerSecond) * 1000;
      client.pause();
      const go = () => {
        depot.write(bytes);
        client.resume();
      };
      this.#allowed -= bytes.length;
      if (this.#allowed >= 0) {
        setTimeout(go, this.#free - now);
      } else {
        this.#waiting.push(go);
        this.#reached();
      }
    });
  }
}
