/** The depot's JSON, as its OpenAPI document describes it. */
import type { BlockRun, EntryIndex } from "../engine/units";
import type { EntryKind, ManifestEntry } from "../engine/resume";

export type TransferState = "open" | "complete" | "partial";

export type Scope = "own" | "send" | "receive";

/** Who is signed in, and what for. */
export interface SessionInfo {
  /** The identifier of the token that it stands for; older depots do not say. */
  readonly token?: string;
  readonly scopes: readonly Scope[];
  readonly label: string;
  /** How long the depot keeps a transfer unless it is asked otherwise; older depots do not say. */
  readonly expires_in_days?: number;
}

/** Times are whole seconds since 1970. */
export interface Transfer {
  readonly id: string;
  readonly name: string;
  readonly state: TransferState;
  readonly created: number;
  readonly expires: number | null;
  readonly completed: number | null;
  readonly entries: number;
  readonly files: number;
  readonly failed: number;
  readonly bytes: number;
  readonly durable_bytes: number;
  /** Once it is finished, of all entries those that arrived. */
  readonly arrived_entries?: number;
  readonly arrived_bytes?: number;
  /** Whether the manifest was told to its end. */
  readonly sealed: boolean;
  /** Whether whoever asks sends it; older depots do not say. */
  readonly yours?: boolean;
  /** The label of the token that sends it: for the depot's owner. */
  readonly sender?: string;
  /** For those who may manage it. */
  readonly link?: string;
}

/** Whoever asks sends it, as far as is known. */
export function isYours({ yours }: Transfer): boolean {
  return yours !== false;
}

/** How many files it has, and how much: what failed and was sent once more is declared twice, and arrives once. */
export function sizeOf({ entries, files, bytes, arrived_entries = entries, arrived_bytes = bytes }: Transfer): { files: number; bytes: number } {
  return { files: Math.max(0, files - (entries - arrived_entries)), bytes: arrived_bytes };
}

/** Whoever asks may go on with it, extend and delete it. */
export function isManageable(transfer: Transfer): boolean {
  return transfer.link !== undefined || isYours(transfer);
}

export interface NewEntry {
  readonly path: string;
  readonly kind: EntryKind;
  readonly size: number;
  readonly mtime: number;
  readonly mtime_nanos: number;
  readonly mode: number;
}

export interface PlacedEntry {
  readonly entry: EntryIndex;
  readonly address: number | null;
}

export interface CreatedTransfer extends Transfer {
  readonly placed: PlacedEntry[];
}

export interface Entry extends ManifestEntry, NewEntry {
  readonly path_hex?: string;
  readonly target_hex?: string;
  readonly address: number | null;
  readonly blake3?: string | null;
  readonly reason?: string | null;
}

export interface EntryPage {
  readonly entries: Entry[];
  readonly total: number;
  readonly next: number | null;
}

export type FailureCause = "vanished" | "changed" | "unreadable" | "refused";

export interface Failure {
  readonly entry: EntryIndex;
  readonly cause: FailureCause;
  readonly detail: string;
}

export interface Extents {
  readonly blocks: number;
  readonly received: BlockRun[];
  readonly durable: BlockRun[];
}
