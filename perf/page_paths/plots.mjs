// Horizontal bars as SVG files that load nothing, light and dark.
import { CHUNKS, REQUESTS } from "./cells.mjs";
import { figures } from "./figures.mjs";

const STYLE = `
text { font: 13px system-ui, sans-serif; fill: #222 } .small { font-size: 11px; fill: #666 }
.c0 { fill: #3b6ea5 } .c1 { fill: #7fa8cf } .c2 { fill: #c2d6ea } .line { stroke: #b3402a; stroke-dasharray: 4 3 } .error { stroke: #222; fill: none }
@media (prefers-color-scheme: dark) { text { fill: #ddd } .small { fill: #aaa } .error { stroke: #ddd } }`;
const WIDTH = 760;
const NAMES = 120;
const LABELS = 150;
const BAR = 16;

/** File names with their content, for what has been measured. */
export function plots(cells) {
  return [...new Set(cells.map(({ cc }) => cc))].flatMap((cc) => {
    const of = (set) => cells.filter((cell) => cell.set === set && cell.cc === cc);
    const trips = of("round-trips").map((cell) => [bar(`${cell.rtt} ms`, cell, 0)]);
    const chunks = of("chunks");
    const sizes = CHUNKS.map((chunk) =>
      REQUESTS.flatMap((requests, at) => chunks.filter((cell) => cell.chunk === chunk && cell.requests === requests)
        .map((cell) => bar(`${chunk} MiB × ${requests}`, cell, 2 - at))),
    ).filter((group) => group.length > 0);
    const drawn = [];
    if (trips.length > 0) drawn.push([`page-round-trips-${cc}.svg`, bars(`500 MB by round trip, ${cc}`, trips)]);
    if (sizes.length > 0) drawn.push([`page-chunks-${cc}.svg`, bars(`500 MB at 100 ms by size and number of requests, ${cc}`, sizes)]);
    return drawn;
  });
}

function bar(name, cell, colour) {
  const { share, rate, mean, deviation } = figures(cell);
  return { name, colour, share, spread: (share * deviation) / mean, label: `${(rate / 1e6).toFixed(0)} MB/s, ${Math.round(share * 100)} %` };
}

/** Groups of bars, as shares of the line, whose end is drawn as a line. */
function bars(title, groups) {
  const scale = WIDTH - NAMES - LABELS;
  let y = 44;
  const shapes = groups.flatMap((group) => {
    const drawn = group.map((bar) => {
      const end = NAMES + bar.share * scale;
      const [from, to] = [end - bar.spread * scale, end + bar.spread * scale].map((x) => x.toFixed(1));
      const error = bar.spread > 0 ? `<path class="error" d="M${from} ${y + BAR / 2}H${to}"/>` : "";
      const text = `<text x="${NAMES - 8}" y="${y + 13}" text-anchor="end">${bar.name}</text>`;
      const rect = `<rect class="c${bar.colour}" x="${NAMES}" y="${y}" width="${(end - NAMES).toFixed(1)}" height="${BAR}" rx="2"/>`;
      const label = `<text x="${(Math.max(end, Number(to)) + 8).toFixed(1)}" y="${y + 13}">${bar.label}</text>`;
      y += BAR + 4;
      return text + rect + error + label;
    });
    y += 8;
    return drawn;
  });
  const limit = NAMES + scale;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y}" role="img"><title>${title}</title><style>${STYLE}</style>`,
    `<text x="0" y="16">${title}</text>`,
    `<text class="small" x="${limit}" y="34" text-anchor="middle">what the line carries</text>`,
    `<path class="line" d="M${limit} 40V${y - 8}"/>`,
    ...shapes,
    "</svg>\n",
  ].join("\n");
}
