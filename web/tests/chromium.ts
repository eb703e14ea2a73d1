/** Debian's Chromium: which program, and how it is started for tests and measurements. */
export const EXECUTABLE = process.env["CHROMIUM"] ?? "/usr/bin/chromium";

export const ARGUMENTS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
