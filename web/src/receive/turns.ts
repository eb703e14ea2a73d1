/** Lets so many do something at a time; others wait for their turn. */
export class Turns {
  /** In the order in which they began. */
  #taken: Turn[] = [];
  readonly #waiting: ((turn: Turn) => void)[] = [];

  constructor(private most: number) {}

  /** Where more have a turn than may, the latest are called off. */
  set limit(most: number) {
    this.most = most;
    for (const turn of this.#taken.slice(most)) turn.callOff();
    this.#call();
  }

  /** Resolves when it is the caller's turn, which lasts until its `end` is called. */
  take(): Promise<Turn> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#call();
    });
  }

  #call(): void {
    while (this.#waiting.length > 0 && this.#taken.length < this.most) {
      const turn = new Turn(() => {
        this.#taken = this.#taken.filter((one) => one !== turn);
        this.#call();
      });
      this.#taken.push(turn);
      this.#waiting.shift()!(turn);
    }
  }
}

export class Turn {
  readonly #calledOff = new AbortController();

  constructor(readonly end: () => void) {}

  /** Ends with a turn that is to be given back at once. */
  get signal(): AbortSignal {
    return this.#calledOff.signal;
  }

  callOff(): void {
    this.#calledOff.abort();
  }
}
