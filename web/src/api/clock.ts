/** The depot's clock, by which transfers expire: this device's may be wrong by days. */

/** Milliseconds that it is ahead of this device's. */
let ahead = 0;

/** An answer came just now, and says that it is of `date`. */
export function handleDate(date: string | null): void {
  const told = Date.parse(date ?? "");
  if (!Number.isNaN(told)) ahead = told - Date.now();
}

/** What it shows now, in seconds since 1970. */
export function depotNow(): number {
  return (Date.now() + ahead) / 1000;
}
