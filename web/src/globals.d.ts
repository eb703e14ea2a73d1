/** The address of the hash worker's script, put in by the bundler. */
declare const HASH_WORKER: string;

declare module "*.wasm" {
  const bytes: Uint8Array;
  export default bytes;
}
