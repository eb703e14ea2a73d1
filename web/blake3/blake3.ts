// BLAKE3 in WebAssembly SIMD, compiled by AssemblyScript.
//
// The page needs what no packaged library offers: the chaining value of a 4 MiB subtree at any offset of a file, so
// that blocks are hashed in parallel and out of order and still merge into the file's ordinary BLAKE3 hash. Inputs
// are at most one block long, so there is no streaming state: a caller copies bytes to `input()` and asks for a
// hash. Four chunks (or four parents) are compressed at a time, one in each lane.

const BLOCK_LEN: usize = 64;
const CHUNK_LEN: usize = 1024;
const OUT_LEN: usize = 32;
/// Longest input: one block of a transfer's address space.
const MAX_INPUT: usize = 4 * 1024 * 1024;

const CHUNK_START: u32 = 1;
const CHUNK_END: u32 = 2;
const PARENT: u32 = 4;
const ROOT: u32 = 8;

const IV: usize = memory.data<u32>([
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
], 16);

/// For each of the seven rounds, which message word each step takes.
const SCHEDULE: usize = memory.data<u8>([
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
  2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8,
  3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1,
  10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6,
  12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4,
  9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7,
  11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13,
], 16);

// Everything below lies after the module's own data.
const KEY: usize = (__heap_base + 63) & ~63;
const OUT: usize = KEY + OUT_LEN;
const MESSAGE: usize = OUT + OUT_LEN; // 16 vectors: word i of each lane's block
const LAST_BLOCK: usize = MESSAGE + 256; // a chunk's last block, padded with zeros
const VALUES: usize = LAST_BLOCK + BLOCK_LEN; // chaining values of the level being merged
const INPUT: usize = VALUES + (MAX_INPUT / CHUNK_LEN) * OUT_LEN;

/// Where inputs are put.
export function input(): usize {
  return INPUT;
}

/// Where results are found: 32 bytes.
export function output(): usize {
  return OUT;
}

/// Where `use_key` finds the key: 32 bytes.
export function key(): usize {
  return KEY;
}

/// Sets the key to the IV, as plain hashing wants it.
export function use_iv(): void {
  memory.copy(KEY, IV, OUT_LEN);
}

/// Hashes the first `len` bytes of the input, which start at chunk `counter` of what they belong to, to the output.
/// `root` says that they are all of it; otherwise the output is the subtree's chaining value.
export function hash(len: usize, counter: u64, mode: u32, root: bool): void {
  const chunks = max<usize>(1, (len + CHUNK_LEN - 1) / CHUNK_LEN);
  if (chunks == 1) {
    chunk(INPUT, len, counter, mode, root ? ROOT : 0, OUT);
    return;
  }
  const whole = len / CHUNK_LEN;
  let at: usize = 0;
  for (; at + 4 <= whole; at += 4) {
    compress4(INPUT + at * CHUNK_LEN, CHUNK_LEN, CHUNK_LEN / BLOCK_LEN, counter + at, 1,
      mode, CHUNK_START, CHUNK_END, VALUES + at * OUT_LEN);
  }
  for (; at < chunks; at++) {
    chunk(INPUT + at * CHUNK_LEN, min(CHUNK_LEN, len - at * CHUNK_LEN), counter + at, mode, 0, VALUES + at * OUT_LEN);
  }
  merge(chunks, mode, root);
}

/// Merges two chaining values, laid end to end in the input, to the output.
export function merge_pair(mode: u32, root: bool): void {
  memory.copy(VALUES, INPUT, 2 * OUT_LEN);
  merge(2, mode, root);
}

/// Merges `count` (2 or more) values in place, level by level. Pairing neighbours and carrying an odd one up gives
/// the tree that BLAKE3 defines.
function merge(count: usize, mode: u32, root: bool): void {
  while (count > 2) {
    const parents = count >> 1;
    let at: usize = 0;
    for (; at + 4 <= parents; at += 4) {
      compress4(VALUES + at * BLOCK_LEN, BLOCK_LEN, 1, 0, 0, mode | PARENT, 0, 0, VALUES + at * OUT_LEN);
    }
    for (; at < parents; at++) {
      compress(VALUES + at * BLOCK_LEN, KEY, BLOCK_LEN as u32, 0, mode | PARENT, VALUES + at * OUT_LEN);
    }
    if (count & 1) memory.copy(VALUES + parents * OUT_LEN, VALUES + (count - 1) * OUT_LEN, OUT_LEN);
    count = parents + (count & 1);
  }
  compress(VALUES, KEY, BLOCK_LEN as u32, 0, mode | PARENT | (root ? ROOT : 0), OUT);
}

/// One chunk of at most 1024 bytes.
function chunk(from: usize, len: usize, counter: u64, mode: u32, last: u32, out: usize): void {
  let chaining = KEY;
  let flags = mode | CHUNK_START;
  while (len > BLOCK_LEN) {
    compress(from, chaining, BLOCK_LEN as u32, counter, flags, out);
    chaining = out;
    flags = mode;
    from += BLOCK_LEN;
    len -= BLOCK_LEN;
  }
  memory.fill(LAST_BLOCK, 0, BLOCK_LEN);
  memory.copy(LAST_BLOCK, from, len);
  compress(LAST_BLOCK, chaining, len as u32, counter, flags | CHUNK_END | last, out);
}

// @ts-ignore: decorator
@inline
function rotate16(x: v128): v128 {
  return i8x16.shuffle(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
}
// @ts-ignore: decorator
@inline
function rotate12(x: v128): v128 {
  return v128.or(i32x4.shr_u(x, 12), i32x4.shl(x, 20));
}
// @ts-ignore: decorator
@inline
function rotate8(x: v128): v128 {
  return i8x16.shuffle(x, x, 1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12);
}
// @ts-ignore: decorator
@inline
function rotate7(x: v128): v128 {
  return v128.or(i32x4.shr_u(x, 7), i32x4.shl(x, 25));
}

// @ts-ignore: decorator
@inline
function words(block: usize, schedule: usize, first: usize, step: usize): v128 {
  let x = v128.load32_zero(block + ((<usize>load<u8>(schedule + first)) << 2));
  x = v128.load_lane<u32>(block + ((<usize>load<u8>(schedule + first + step)) << 2), x, 1);
  x = v128.load_lane<u32>(block + ((<usize>load<u8>(schedule + first + 2 * step)) << 2), x, 2);
  return v128.load_lane<u32>(block + ((<usize>load<u8>(schedule + first + 3 * step)) << 2), x, 3);
}

/// One block, the state's four rows in four vectors. `chaining` and `out` may be the same place.
function compress(block: usize, chaining: usize, len: u32, counter: u64, flags: u32, out: usize): void {
  let a = v128.load(chaining);
  let b = v128.load(chaining, 16);
  let c = v128.load(IV);
  let d = i32x4.splat(counter as u32);
  d = i32x4.replace_lane(d, 1, (counter >> 32) as u32);
  d = i32x4.replace_lane(d, 2, len);
  d = i32x4.replace_lane(d, 3, flags);
  for (let schedule = SCHEDULE; schedule < SCHEDULE + 112; schedule += 16) {
    a = i32x4.add(i32x4.add(a, b), words(block, schedule, 0, 2));
    d = rotate16(v128.xor(d, a));
    c = i32x4.add(c, d);
    b = rotate12(v128.xor(b, c));
    a = i32x4.add(i32x4.add(a, b), words(block, schedule, 1, 2));
    d = rotate8(v128.xor(d, a));
    c = i32x4.add(c, d);
    b = rotate7(v128.xor(b, c));
    b = v128.shuffle<u32>(b, b, 1, 2, 3, 0);
    c = v128.shuffle<u32>(c, c, 2, 3, 0, 1);
    d = v128.shuffle<u32>(d, d, 3, 0, 1, 2);
    a = i32x4.add(i32x4.add(a, b), words(block, schedule, 8, 2));
    d = rotate16(v128.xor(d, a));
    c = i32x4.add(c, d);
    b = rotate12(v128.xor(b, c));
    a = i32x4.add(i32x4.add(a, b), words(block, schedule, 9, 2));
    d = rotate8(v128.xor(d, a));
    c = i32x4.add(c, d);
    b = rotate7(v128.xor(b, c));
    b = v128.shuffle<u32>(b, b, 3, 0, 1, 2);
    c = v128.shuffle<u32>(c, c, 2, 3, 0, 1);
    d = v128.shuffle<u32>(d, d, 1, 2, 3, 0);
  }
  v128.store(out, v128.xor(a, c));
  v128.store(out, v128.xor(b, d), 16);
}

// @ts-ignore: decorator
@inline
function message(schedule: usize, step: usize): v128 {
  return v128.load(MESSAGE + ((<usize>load<u8>(schedule + step)) << 4));
}

/// Reads 16 bytes from each of four places and stores word i of each as vector i.
// @ts-ignore: decorator
@inline
function transpose(from: usize, stride: usize, to: usize): void {
  const a = v128.load(from);
  const b = v128.load(from + stride);
  const c = v128.load(from + 2 * stride);
  const d = v128.load(from + 3 * stride);
  const ab = v128.shuffle<u32>(a, b, 0, 4, 1, 5);
  const ab2 = v128.shuffle<u32>(a, b, 2, 6, 3, 7);
  const cd = v128.shuffle<u32>(c, d, 0, 4, 1, 5);
  const cd2 = v128.shuffle<u32>(c, d, 2, 6, 3, 7);
  v128.store(to, v128.shuffle<u64>(ab, cd, 0, 2));
  v128.store(to, v128.shuffle<u64>(ab, cd, 1, 3), 16);
  v128.store(to, v128.shuffle<u64>(ab2, cd2, 0, 2), 32);
  v128.store(to, v128.shuffle<u64>(ab2, cd2, 1, 3), 48);
}

/// Four inputs of `blocks` blocks each, `stride` bytes apart, to four values laid end to end.
function compress4(
  from: usize, stride: usize, blocks: usize, counter: u64, counterStep: u32,
  mode: u32, firstFlag: u32, lastFlag: u32, out: usize,
): void {
  let h0 = i32x4.splat(load<u32>(KEY));
  let h1 = i32x4.splat(load<u32>(KEY, 4));
  let h2 = i32x4.splat(load<u32>(KEY, 8));
  let h3 = i32x4.splat(load<u32>(KEY, 12));
  let h4 = i32x4.splat(load<u32>(KEY, 16));
  let h5 = i32x4.splat(load<u32>(KEY, 20));
  let h6 = i32x4.splat(load<u32>(KEY, 24));
  let h7 = i32x4.splat(load<u32>(KEY, 28));
  // Chunk counters of one call never cross 2³²: inputs start at multiples of 4096 chunks.
  const low = i32x4.add(
    i32x4.splat(counter as u32),
    counterStep ? i32x4(0, 1, 2, 3) : i32x4.splat(0),
  );
  const high = i32x4.splat((counter >> 32) as u32);
  let flags = mode | firstFlag;
  for (let block: usize = 0; block < blocks; block++) {
    if (block + 1 == blocks) flags |= lastFlag;
    const at = from + block * BLOCK_LEN;
    transpose(at, stride, MESSAGE);
    transpose(at + 16, stride, MESSAGE + 64);
    transpose(at + 32, stride, MESSAGE + 128);
    transpose(at + 48, stride, MESSAGE + 192);
    let v0 = h0, v1 = h1, v2 = h2, v3 = h3, v4 = h4, v5 = h5, v6 = h6, v7 = h7;
    let v8 = i32x4.splat(0x6a09e667), v9 = i32x4.splat(0xbb67ae85);
    let va = i32x4.splat(0x3c6ef372), vb = i32x4.splat(0xa54ff53a);
    let vc = low, vd = high, ve = i32x4.splat(BLOCK_LEN as u32), vf = i32x4.splat(flags);
    for (let schedule = SCHEDULE; schedule < SCHEDULE + 112; schedule += 16) {
      v0 = i32x4.add(i32x4.add(v0, v4), message(schedule, 0));
      v1 = i32x4.add(i32x4.add(v1, v5), message(schedule, 2));
      v2 = i32x4.add(i32x4.add(v2, v6), message(schedule, 4));
      v3 = i32x4.add(i32x4.add(v3, v7), message(schedule, 6));
      vc = rotate16(v128.xor(vc, v0));
      vd = rotate16(v128.xor(vd, v1));
      ve = rotate16(v128.xor(ve, v2));
      vf = rotate16(v128.xor(vf, v3));
      v8 = i32x4.add(v8, vc);
      v9 = i32x4.add(v9, vd);
      va = i32x4.add(va, ve);
      vb = i32x4.add(vb, vf);
      v4 = rotate12(v128.xor(v4, v8));
      v5 = rotate12(v128.xor(v5, v9));
      v6 = rotate12(v128.xor(v6, va));
      v7 = rotate12(v128.xor(v7, vb));
      v0 = i32x4.add(i32x4.add(v0, v4), message(schedule, 1));
      v1 = i32x4.add(i32x4.add(v1, v5), message(schedule, 3));
      v2 = i32x4.add(i32x4.add(v2, v6), message(schedule, 5));
      v3 = i32x4.add(i32x4.add(v3, v7), message(schedule, 7));
      vc = rotate8(v128.xor(vc, v0));
      vd = rotate8(v128.xor(vd, v1));
      ve = rotate8(v128.xor(ve, v2));
      vf = rotate8(v128.xor(vf, v3));
      v8 = i32x4.add(v8, vc);
      v9 = i32x4.add(v9, vd);
      va = i32x4.add(va, ve);
      vb = i32x4.add(vb, vf);
      v4 = rotate7(v128.xor(v4, v8));
      v5 = rotate7(v128.xor(v5, v9));
      v6 = rotate7(v128.xor(v6, va));
      v7 = rotate7(v128.xor(v7, vb));

      v0 = i32x4.add(i32x4.add(v0, v5), message(schedule, 8));
      v1 = i32x4.add(i32x4.add(v1, v6), message(schedule, 10));
      v2 = i32x4.add(i32x4.add(v2, v7), message(schedule, 12));
      v3 = i32x4.add(i32x4.add(v3, v4), message(schedule, 14));
      vf = rotate16(v128.xor(vf, v0));
      vc = rotate16(v128.xor(vc, v1));
      vd = rotate16(v128.xor(vd, v2));
      ve = rotate16(v128.xor(ve, v3));
      va = i32x4.add(va, vf);
      vb = i32x4.add(vb, vc);
      v8 = i32x4.add(v8, vd);
      v9 = i32x4.add(v9, ve);
      v5 = rotate12(v128.xor(v5, va));
      v6 = rotate12(v128.xor(v6, vb));
      v7 = rotate12(v128.xor(v7, v8));
      v4 = rotate12(v128.xor(v4, v9));
      v0 = i32x4.add(i32x4.add(v0, v5), message(schedule, 9));
      v1 = i32x4.add(i32x4.add(v1, v6), message(schedule, 11));
      v2 = i32x4.add(i32x4.add(v2, v7), message(schedule, 13));
      v3 = i32x4.add(i32x4.add(v3, v4), message(schedule, 15));
      vf = rotate8(v128.xor(vf, v0));
      vc = rotate8(v128.xor(vc, v1));
      vd = rotate8(v128.xor(vd, v2));
      ve = rotate8(v128.xor(ve, v3));
      va = i32x4.add(va, vf);
      vb = i32x4.add(vb, vc);
      v8 = i32x4.add(v8, vd);
      v9 = i32x4.add(v9, ve);
      v5 = rotate7(v128.xor(v5, va));
      v6 = rotate7(v128.xor(v6, vb));
      v7 = rotate7(v128.xor(v7, v8));
      v4 = rotate7(v128.xor(v4, v9));
    }
    h0 = v128.xor(v0, v8);
    h1 = v128.xor(v1, v9);
    h2 = v128.xor(v2, va);
    h3 = v128.xor(v3, vb);
    h4 = v128.xor(v4, vc);
    h5 = v128.xor(v5, vd);
    h6 = v128.xor(v6, ve);
    h7 = v128.xor(v7, vf);
    flags = mode;
  }
  // The message area is free now: lay the lanes there in rows, then turn them into values end to end.
  v128.store(MESSAGE, h0);
  v128.store(MESSAGE, h1, 16);
  v128.store(MESSAGE, h2, 32);
  v128.store(MESSAGE, h3, 48);
  v128.store(MESSAGE, h4, 64);
  v128.store(MESSAGE, h5, 80);
  v128.store(MESSAGE, h6, 96);
  v128.store(MESSAGE, h7, 112);
  transpose(MESSAGE, 16, MESSAGE + 128);
  transpose(MESSAGE + 64, 16, MESSAGE + 192);
  for (let lane: usize = 0; lane < 4; lane++) {
    v128.store(out + lane * OUT_LEN, v128.load(MESSAGE + 128 + lane * 16));
    v128.store(out + lane * OUT_LEN, v128.load(MESSAGE + 192 + lane * 16), 16);
  }
}
