// The results as Markdown.
import { CHUNKS, REQUESTS, identity } from "./cells.mjs";
import { disturbed, dropped, figures, missed, stolen } from "./figures.mjs";
import { LINE, PAYLOAD } from "./run.mjs";

export function markdown(cells) {
  const controls = [...new Set(cells.map(({ cc }) => cc))].sort();
  const parts = [HEAD, ...controls.flatMap((cc) => sections(cc, cells.filter((cell) => cell.cc === cc))), METHOD, ...machines(cells), commands(cells)];
  return `${parts.join("\n\n")}\n`;
}

/** What is left out. */
const WITHOUT = { depot: ", to a server that discards", hashing: ", without hashing in the browser" };
/** Shares of the line that are asked for. */
const GOALS = { large: 0.9, "small-files": 0.8 };

const HEAD = `# The page on long paths

How fast the page sends from a browser to a depot over a line of 1 Gbit/s: headless Chromium at one end of an emulated path
(\`terahaul lab path\`, no loss, a queue of one bandwidth-delay product), a depot at the other.

\`\`\`sh
scripts/results.sh page        # all that is here; or one set at a time:
node perf/page_paths.mjs --only round-trips --cc bbr,cubic --runs 3
\`\`\``;

const METHOD = `## How it was measured

- **A time** is from pressing Send to the page's "Sent, stored and verified", both by the page's own clock: declaring the files, every byte over HTTPS, hashed by the
  page and by the depot and compared, the depot's sync and its signed receipt. Choosing the files is not in it; Send is pressed a second after it, as nobody does sooner, and the page has opened its connections by then. Each run has a new path, a new depot
  and a new browser, and so TCP connections that know nothing of the path.
- **Share of the line** is file bytes against what TCP can carry on it: ${(LINE * PAYLOAD / 1e6).toFixed(0)} Mbit/s, 1448 of each 1500 bytes. TLS, HTTP
  and the beginning are on the sender's account.
- **Files** are random bytes in memory, and so is the depot's store. They cannot be compressed. In a virtual machine, memory for both is touched beforehand
  (\`--warm\`): pages that the host has to give first cost a quarter of two processors here, and 2 GB then took 20.7 to 27 s instead of 18.6 to 21.3.
- **The machine is part of the result.** Chromium, the depot and the path's emulator share its processors: for 2 GB in some 20 s, two of them worked 27 s.
  Chromium took 18 (reading every byte once, hashing it and handing it over, 10; its browser process 3.8; its network process 3.5), the emulator
  7, the depot 5. Machines of their own for both ends should do better, which is not measured.
- **What is not reached, and why:** the line alone takes 16.6 s for 2 GB, and six connections of iperf3, which have nothing to read, hash or wait for, 17.1 s (0.97; bbr and cubic).
  The page's first request goes out after the round trip of the declaration, 0.1 s; its connections double what they send from 14 kB on, and carry 50 MB in the first second of
  sending instead of 121: 0.6 s. The last answer, with which the receipt comes, takes a round trip, 0.1 s. That alone makes 17.4 s, 0.95. The rest are dips after requests: each connection waits for a round trip after every one.
- **How the page came here**, same machine and path, without those of a debugged browser: slices of files in requests of up to 128 MiB, read again for the hash, 19.6 to 19.8 s; read once, requests of 32 MiB, 20.6 to 21.9;
  two requests given to the browser beforehand, 18.8 to 21.0; these of 8 MiB, 18.3 to 18.8; requests of 12 MiB, 17.9 to 18.1; finishing while the last ones are under way, and the first ones read during the declaration, 17.7 to 18.2. Requests of 8 MiB drop nothing in the queue, those of 12 in one run of six 4 in ten thousand packets, those of 32 up to 1.3 in a hundred, as
  six send buffers of 4 MiB are more than the path and its queue hold, 25 MB. Reading once is what counts where the processors are the limit: 2.1 GB on a line of 10 Gbit/s without delay (\`--path lan\`) took 18.5 to 19.7 s before, and 10.6 since.
- **The send buffer** is what limits one request at a time. With \`net.ipv4.tcp_wmem\` at 32 MiB instead of 4 at the page's end, requests of 64 MiB one at
  a time took 8.5 s instead of 18.7 s for the 500 MB (bbr, one run each).
- **The queue** holds a bandwidth-delay product and 64 packets at least, which is the case at 0.2 ms. A congestion control that does not slow down
  for losses fills it and loses more there: packets that are sent twice cost this machine's time too.
- **The beginning counts.** 500 MB take 4.1 s on this line at best. A new connection doubles what it sends with each round trip, so at 200 ms
  it is a second and more until the line is full, besides the round trips of the declaration and of the last answer. The larger a file, the less
  that counts.`;

function sections(cc, cells) {
  const of = (set) => cells.filter((cell) => cell.set === set);
  const parts = [`## TCP's congestion control: ${cc}`];
  const trips = of("round-trips");
  if (trips.length > 0) {
    parts.push("### One file of 500 MB by round trip", `![Bars: share of the line for each round trip](page-round-trips-${cc}.svg)`,
      table(["round trip", ...COLUMNS], trips.map((cell) => [`${cell.rtt} ms`, ...columns(cell)])), ...buffersText(of("chunks")));
  }
  const others = [...of("large"), ...of("small-files")];
  const limits = of("limits");
  if (others.length > 0) {
    parts.push("### Two gigabytes at 100 ms", table(["", ...COLUMNS], [...others, ...limits].map((cell) => [sourceText(cell.source) + limitText(cell), ...columns(cell)])),
      `The goals are ${GOALS.large.toFixed(2)} of the line for one file, and ${GOALS["small-files"].toFixed(2)} for small ones. Reached by ${others.map(verdict).join("; ")}. ` +
        "FileSender's page of 2013 reached 696 Mbit/s at best on such a path, between machines that had nothing else to do.");
  }
  const chunks = of("chunks");
  if (chunks.length > 0) parts.push(...chunkTable(cc, chunks, trips.find(({ rtt }) => rtt === 100)));
  return parts;
}

function limitText({ without, rate }) {
  return rate ? `, on a line of ${rate / 1e6} Mbit/s` : (WITHOUT[without] ?? "");
}

function verdict(cell) {
  const { share } = figures(cell);
  return `${sourceText(cell.source)}: ${share.toFixed(2)}, ${share >= GOALS[cell.set] ? "met" : "missed here"}`;
}

function chunkTable(cc, cells, adaptive) {
  const find = (chunk, requests) => cells.find((cell) => cell.chunk === chunk && cell.requests === requests);
  const rows = CHUNKS.map((chunk) => [`${chunk} MiB`, ...REQUESTS.map((requests) => speed(find(chunk, requests)))]);
  const runs = Math.max(...cells.map((cell) => cell.runs.length));
  const left = adaptive ? ` Left to itself, the page takes six requests on this path, begins with 8 MiB and adapts: ${speed(adaptive)}.` : "";
  return [
    "### Size and number of requests: 500 MB at 100 ms",
    `![Bars: share of the line for each size and number of requests](page-chunks-${cc}.svg)`,
    table(["each request carries", ...REQUESTS.map((requests) => `${requests} at a time`)], rows),
    `${runs === 1 ? "One run each" : `Medians of ${runs} runs`}.${left}`,
    "After FileSender's table of 2013, which goes from 0.5 to 50 MB with six workers: 118 Mbit/s with chunks of 0.5 MB, 402 with 4 MB, 696 with 30 MB (with TLS, 100 ms). " +
      "This page sends whole blocks of 4 MiB, so that is its smallest. Between two requests a connection waits for a round trip at least, so small requests need many at a time. " +
      `One connection has no more under way than the kernel's send buffer holds, here ${(cells[0].machine.send_buffer / 2 ** 20).toFixed(0)} MiB with what the kernel itself needs: one request is limited by that, however large it is. ` +
      "500 MB are only four requests of 128 MiB and eight of 64 MiB: with six at a time, these leave some idle at the end. The page shares out the last bytes to avoid that; with a fixed size it does not.",
  ];
}

/** A browser opens six connections, and each has a send buffer. */
function buffersText(chunks) {
  const single = chunks.filter(({ requests }) => requests === 1).map((cell) => figures(cell).rate / 1e6);
  if (single.length === 0) return [];
  const one = Math.max(...single);
  return [`One connection carries ${one.toFixed(0)} MB/s at 100 ms (the last table), as the kernel's send buffer holds no more, and so half of that at 200 ms: ` +
    `${(one * 3).toFixed(0)} MB/s with the six that a browser opens, ${(one * 3e6 * 8 / (LINE * PAYLOAD)).toFixed(2)} of the line. On such paths a larger \`net.ipv4.tcp_wmem\` helps every program that sends.`];
}

const COLUMNS = ["seconds, median", "mean ± deviation", "runs", "MB/s", "Mbit/s", "share of the line", "dropped in the queue"];

function columns(cell) {
  const { median, mean, deviation, rate, share } = figures(cell);
  const spread = cell.runs.length > 1 ? `${mean.toFixed(2)} ± ${deviation.toFixed(2)}` : mean.toFixed(2);
  return [median.toFixed(2), spread, cell.runs.length, (rate / 1e6).toFixed(1), (rate * 8 / 1e6).toFixed(0), share.toFixed(2), `${(dropped(cell) * 100).toFixed(1)} %`];
}

function speed(cell) {
  if (!cell) return "";
  const { rate, share, median } = figures(cell);
  return `${(rate * 8 / 1e6).toFixed(0)} Mbit/s (${share.toFixed(2)}), ${median.toFixed(1)} s`;
}

function sourceText({ files, bytes }) {
  return files === 1 ? `one file of ${bytes / 1e9} GB` : `${files.toLocaleString("en")} files of ${bytes / files / 1000} kB`;
}

function machines(cells) {
  const about = ({ machine, runs }) =>
    `- ${machine.cores} × ${machine.processor}, ${(machine.memory / 2 ** 30).toFixed(0)} GiB of memory; ${machine.kernel}, ${machine.system}; ` +
    `${machine.browser}; Terahaul ${machine.terahaul}, with ${machine.page === "web/dist" ? "the page from web/dist" : "its own page"}; ` +
    `the kernel's own congestion control is ${machine.congestion_control}, its send buffer at most ${(machine.send_buffer / 2 ** 20).toFixed(0)} MiB (${runs[0].at.slice(0, 10)})`;
  const lines = [...new Set(cells.map(about))];
  const bad = cells.filter((cell) => missed(cell) > 0).map((cell) => `- **${identity(cell)}**: the machine was too slow, and the emulator lost ${missed(cell)} packets that the path would not have.`);
  bad.push(...cells.filter((cell) => stolen(cell) >= 0.05).map((cell) => `- **${identity(cell)}**: this machine's host gave ${(stolen(cell) * 100).toFixed(0)} % of the processor time to others.`));
  const busy = disturbed(cells);
  const all = cells.reduce((sum, { runs }) => sum + runs.length, 0);
  if (busy > 0) bad.push(`- **Not a quiet machine**: when ${busy} of the ${all} runs began, other programs used more than a fifth of the processors. These figures are what the page reached at least.`);
  return ["## Machine", [...lines, ...bad].join("\n")];
}

function commands(cells) {
  const lines = cells.map((cell) => `# ${identity(cell)}\n${cell.command}`);
  return ["<details><summary>Command lines, in web/; WORK is a folder in memory</summary>", `\`\`\`sh\n${lines.join("\n")}\n\`\`\``, "</details>"].join("\n\n");
}

function table(head, rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [line(head), `|---${"|---:".repeat(head.length - 1)}|`, ...rows.map(line)].join("\n");
}
