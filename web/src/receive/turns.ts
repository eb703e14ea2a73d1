/** Lets so many do something at a time; others wait for their turn. */
export class Turns {
  #taken = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(private most: number) {}

  /** Who has a turn by now keeps it. */
  set limit(most: number) {
    this.most = most;
    this.#call();
  }

  /** Resolves when it is the caller's turn, which lasts until `end` is called. */
  take(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#call();
    });
  }

  end(): void {
    this.#taken--;
    this.#call();
  }

  #call(): void {
    while (this.#waiting.length > 0 && this.#taken < this.most) {
      this.#taken++;
      this.#waiting.shift()!();
    }
  }
}
