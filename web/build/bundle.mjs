// Builds the page into dist/: index.html and assets whose names carry a hash of their content.
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { buildWasm } from "./wasm.mjs";

/** What the page may weigh, compressed. */
const MOST_BYTES = 150_000;

const root = fileURLToPath(new URL("../", import.meta.url));
const dist = `${root}dist/`;

/** Bundles one script and returns its text. */
async function bundle(entry, define = {}) {
  const { outputFiles } = await build({
    entryPoints: [root + entry], bundle: true, write: false, minify: true, format: "esm", target: ["chrome100", "firefox100", "safari16"],
    loader: { ".wasm": "binary" }, jsx: "automatic", jsxImportSource: "preact", legalComments: "none", define,
  });
  return outputFiles[0].contents;
}

/** Writes an asset and returns its address. */
async function asset(name, extension, content) {
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 10);
  const file = `${name}-${hash}.${extension}`;
  await writeFile(`${dist}assets/${file}`, content);
  return `/assets/${file}`;
}

async function style() {
  const { outputFiles } = await build({ entryPoints: [`${root}src/style.css`], write: false, minify: true });
  return outputFiles[0].contents;
}

await buildWasm();
await rm(dist, { recursive: true, force: true });
await mkdir(`${dist}assets`, { recursive: true });
const worker = await asset("hash-worker", "js", await bundle("src/hash/worker.ts"));
const script = await asset("page", "js", await bundle("src/main.tsx", { HASH_WORKER: JSON.stringify(worker) }));
const css = await asset("page", "css", await style());
const icon = await asset("icon", "svg", await readFile(`${root}src/icon.svg`));
const html = (await readFile(`${root}src/index.html`, "utf8")).replace("SCRIPT", script).replace("STYLE", css).replace("ICON", icon);
await writeFile(`${dist}index.html`, html);

let total = gzipSync(html).length;
for (const file of await readdir(`${dist}assets`)) total += gzipSync(await readFile(`${dist}assets/${file}`)).length;
console.log(`dist: ${total.toLocaleString("en")} bytes gzipped in all`);
if (total > MOST_BYTES) throw new Error(`the page is larger than ${MOST_BYTES} bytes gzipped`);
