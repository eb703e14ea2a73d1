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

  private constructor(
    readonly depot: RunningDepot,
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

  cut(): void {
    this.#up = false;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend(): void {
    this.#up = true;
  }

  close(): void {
    this.cut();
    this.#server.close();
  }

  #connect(client: Socket): void {
    if (!this.#up) {
      client.destroy();
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
    depot.pipe(client);
    client.on("data", (bytes) => {
      const now = performance.now();
      this.#free = Math.max(this.#free, now) + (bytes.length / this.bytesPerSecond) * 1000;
      client.pause();
      setTimeout(() => {
        depot.write(bytes);
        client.resume();
      }, this.#free - now);
    });
  }
}
