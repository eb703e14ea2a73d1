// Compiles blake3/blake3.ts to blake3/blake3.wasm.
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";

const folder = fileURLToPath(new URL("../blake3/", import.meta.url));

export async function buildWasm() {
  // 84 pages of 64 KiB: one 4 MiB input, its chaining values and the module's own data.
  const { error, stderr } = await asc.main(
    ["blake3.ts", "--outFile", "blake3.wasm", "--baseDir", folder, "--runtime", "stub", "--noAssert",
      "--enable", "simd,bulk-memory", "-O3", "--converge", "--initialMemory", "84", "--maximumMemory", "84"],
  );
  if (error) throw new Error(`blake3.ts does not compile: ${error.message}\n${stderr.toString()}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildWasm();
