// What the runs of a cell come to.
import { median } from "../measure.mjs";
import { LINE, PAYLOAD } from "./run.mjs";

/** Seconds: median, mean and sample deviation; bytes a second of the median; share of what the line carries in payload. */
export function figures({ runs, source, rate: line = LINE }) {
  const seconds = runs.map((run) => run.seconds);
  const mean = seconds.reduce((sum, value) => sum + value, 0) / seconds.length;
  const squares = seconds.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const middle = median(seconds);
  const rate = source.bytes / middle;
  return {
    mean,
    deviation: seconds.length > 1 ? Math.sqrt(squares / (seconds.length - 1)) : 0,
    median: middle,
    rate,
    share: (rate * 8) / (line * PAYLOAD),
  };
}

/** Packets that the emulator itself lost, because this machine was too slow: they are not the path's. */
export function missed({ runs }) {
  return runs.reduce((sum, { path }) => sum + path.near_to_far.missed + path.far_to_near.missed, 0);
}

/** The share of the page's packets for which the queue had no room. */
export function dropped({ runs }) {
  const sum = (field) => runs.reduce((total, { path }) => total + path.near_to_far[field], 0);
  return sum("queue_dropped") / sum("sent");
}

/** The mean share of the processor time that the host of this machine gave to others; null where no run has it. */
export function stolen({ runs }) {
  const shares = runs.map((run) => run.stolen).filter((share) => share !== undefined);
  return shares.length > 0 ? shares.reduce((sum, share) => sum + share, 0) / shares.length : null;
}

/** Runs that began while other programs used more than a fifth of the processors: the page, the path and the depot need them all. */
export function disturbed(cells) {
  return cells.flatMap(({ runs }) => runs).filter((run) => run.idle_before < 0.8).length;
}
