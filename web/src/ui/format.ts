/** Figures as people read them. */
import { plural } from "../engine/plural";

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

/** Three significant digits, powers of 1000: `4.29 GB`. */
export function bytes(count: number): string {
  let unit = 0;
  let value = count;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  const digits = unit === 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

export function speed(bytesPerSecond: number | null): string {
  return bytesPerSecond === null ? "–" : `${bytes(bytesPerSecond)}/s`;
}

/** `8 s`, `3 min 20 s`, `2 h 5 min`, `3 days`. */
export function duration(seconds: number): string {
  const whole = Math.max(1, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 3600) return `${Math.round(whole / 60)} min`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return plural(Math.round(whole / 86_400), "day");
}

/** Whole per cent, never 100 before the end. */
export function percent(done: number, total: number): number {
  if (total <= 0) return 100;
  return done >= total ? 100 : Math.min(99, Math.floor((done / total) * 100));
}

export function date(seconds: number): string {
  return new Date(seconds * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
}

export function dateTime(seconds: number): string {
  const at = new Date(seconds * 1000);
  return `${date(seconds)}, ${at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`;
}

/** How long until `expires`, for people deciding whether to hurry. */
export function until(expires: number, now: number): string {
  const seconds = expires - now;
  if (seconds <= 0) return "expired";
  if (seconds < 86_400) return `expires in ${plural(Math.max(1, Math.round(seconds / 3600)), "hour")}`;
  return `expires in ${plural(Math.round(seconds / 86_400), "day")}`;
}
