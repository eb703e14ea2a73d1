// What is measured: a cell is one round trip, one source and, in the chunk table, one size and number of requests. `limits` are
// the same as `large` with a part of the work left out: the depot's (a server that discards), the page's hashing, or half of the line,
// which gives the processors twice the time.

export const SETS = ["round-trips", "large", "small-files", "limits", "chunks"];

const MB = 1_000_000;
// "0 ms" is a switch: its round trip is not nothing either.
const ROUND_TRIPS = [0.2, 50, 100, 150, 200];
/** In MiB: the page never cuts a block, and those are 4 MiB. */
export const CHUNKS = [4, 8, 16, 32, 64, 128];
/** How many requests at a time. */
export const REQUESTS = [1, 3, 6];

const FILE = { files: 1, bytes: 500 * MB };
const LARGE = { files: 1, bytes: 2000 * MB };
const SMALL = { files: 4000, bytes: 2000 * MB };

/** The cells of `set` with each congestion control of `controls`. */
export function cellsOf(set, controls) {
  return controls.flatMap((cc) => shapesOf(set).map((shape) => ({ set, cc, ...shape })));
}

/** Two cells with the same text are the same measurement. */
export function identity({ set, cc, rtt, source, chunk, requests, without, rate }) {
  const others = [without, rate && `${rate / 1e6}mbit`].filter(Boolean);
  return [set, cc, rtt, source.files, source.bytes, chunk ?? "-", requests ?? "-", ...others].join(" ");
}

/** `cells` in the order of the report. */
export function sorted(cells) {
  const place = (cell) => [SETS.indexOf(cell.set), cell.rtt, cell.source.files, cell.chunk ?? 0, cell.requests ?? 0];
  const compare = (a, b) => a.map((value, at) => value - b[at]).find((difference) => difference !== 0) ?? 0;
  return cells.toSorted((a, b) => a.cc.localeCompare(b.cc) || compare(place(a), place(b)));
}

function shapesOf(set) {
  switch (set) {
    case "round-trips":
      return ROUND_TRIPS.map((rtt) => ({ rtt, source: FILE }));
    case "large":
      return [{ rtt: 100, source: LARGE }];
    case "small-files":
      return [{ rtt: 100, source: SMALL }];
    case "limits":
      return [{ without: "depot" }, { without: "hashing" }, { rate: 500e6 }].map((limit) => ({ rtt: 100, source: LARGE, ...limit }));
    case "chunks":
      return CHUNKS.flatMap((chunk) => REQUESTS.map((requests) => ({ rtt: 100, source: FILE, chunk, requests })));
    default:
      throw new Error(`no such set: ${set}; there are ${SETS.join(", ")}`);
  }
}
