/** Sends one transfer: declares its files, has them carried, finishes it. Goes on across lost networks. */
import { depot, roundTrip } from "../api/depot";
import { DepotError } from "../api/error";
import { readManifest } from "../api/manifest";
import { persist } from "../api/persist";
import { session } from "../api/session";
import type { Entry, NewEntry, PlacedEntry, Transfer } from "../api/types";
import { batches } from "../engine/batches";
import { toHex } from "../engine/hex";
import { Layout } from "../engine/layout";
import { messageOf } from "../engine/message_of";
import { type Matched, isLost } from "../engine/resume";
import { type Phase, phaseAfter } from "../engine/sending_phase";
import type { BlockRun, EntryIndex } from "../engine/units";
import { type Progress, Upload, type UploadOptions } from "../engine/upload";
import { type HashPool, hashersFor } from "../hash/pool";
import { Observable } from "../observable";
import type { Chosen } from "./chosen";
import { Courier } from "./courier";
import { type SourceFailure, Sources } from "./sources";

/** Failures reported in one call. */
const MOST_FAILURES = 1000;
/** What the depot answers where all that is to come is more than it takes. It hears of that batch by batch, so that it may have taken some. */
const TOO_MUCH = ["quota_exceeded", "disk_full", "too_large", "too_many_entries"];
/** Seconds that the depot may wait with finishing for what is under way. A line that needs longer for that gains nothing by it, and
 * what a depot lost without the page's knowledge is only missed after them. */
const WAIT_TO_FINISH = 5;
/** Milliseconds after which its answer is lost, most likely. */
const WAIT_FOR_ANSWER = 2 * WAIT_TO_FINISH * 1000;

/** What a list shows of an entry. */
export interface SentEntry {
  readonly path: string;
  readonly kind: Chosen["kind"] | "symlink";
  readonly size: number;
}

export interface NamedFailure {
  readonly path: string;
  readonly reason: string;
}

export class Sender extends Observable {
  phase: Phase = "declaring";
  /** There is none as long as it begins. */
  transfer!: Transfer;
  /** Whether the depot has taken it. Where it was closed before that, nothing of it is left there by then. */
  begun: Promise<boolean> = Promise.resolve(true);
  /** `false` where all of what was chosen was too much for the depot, which has nothing of it then. Known once the depot was told of all, or this
   * is closed. */
  readonly taken: Promise<boolean>;
  #handleTaken!: (taken: boolean) => void;
  /** It was begun here. */
  #isFresh = false;
  /** Why it stopped, or could not begin. */
  problem: string | null = null;
  /** It stopped as the depot has it no more. */
  isGone = false;
  /** Why the depot does not take something just now, which is tried again. */
  hindrance: DepotError | null = null;
  /** What is not in the transfer, what failed on earlier visits first. */
  readonly failures: NamedFailure[] = [];
  readonly entries: SentEntry[] = [];
  readonly upload: Upload;
  readonly #sources = new Sources();
  readonly #hashers: HashPool | null;
  readonly #courier: Courier;
  readonly #stop = new AbortController();
  /** Who is signed in as it begins. */
  readonly holder = session.holder;
  #declared: EntryIndex = 0;
  /** What the depot has of the transfer is known: until then nothing may be sent, or said of what it has. */
  #known = false;
  #handleKnown: () => void = () => {};
  readonly #whenKnown = new Promise<void>((resolve) => (this.#handleKnown = resolve));
  #proceeding: Promise<void> | null = null;
  #reporting: Promise<void> | null = null;
  #refusing: Promise<unknown> | null = null;
  #unreported: SourceFailure[] = [];
  /** Entries that have failed, or fail, and have others of the same path in their places. */
  #replaced: ReadonlySet<EntryIndex> = new Set();
  /** How many of `failures` are of earlier visits. */
  #failedBefore = 0;
  #finishing = false;
  /** Finishing that the depot was asked for while the last requests were under way, once at most: `null` if nothing came of it. */
  #early: { readonly answer: Promise<Transfer | null>; abort(): void } | null = null;
  #sealed = false;
  #waiting: Chosen[][] = [];
  /** Bytes of files that the depot has not been told of yet. */
  #undeclared = 0;

  private constructor(options: UploadOptions) {
    super();
    this.taken = new Promise((resolve) => (this.#handleTaken = resolve));
    this.#hashers = hashersFor(options);
    this.upload = new Upload(options);
    this.upload.handleRoundTrip(roundTrip());
    this.#courier = new Courier(this.upload, this.#sources, this.#hashers, {
      failed: (failure) => this.#handleFailure(failure),
      reported: () => this.#tell(),
      changed: () => {
        if (!this.upload.reachable) this.#early?.abort();
        this.changed();
        void this.#finish();
      },
      answered: (hindrance) => this.#handleAnswer(hindrance),
      refused: (error) => void this.#handleRefusal(error),
    });
  }

  /** Sends all of `chosen` in a fresh transfer. There is none where the depot refuses it, or where it is closed before. */
  static begin(name: string, days: number, chosen: readonly Chosen[], options: UploadOptions): Sender {
    const planned = batches(chosen);
    const first = planned[0] ?? [];
    const sender = new Sender(options);
    sender.phase = "beginning";
    sender.#isFresh = true;
    sender.#plan(planned);
    // Both ends lay the manifest out alike, so the first chunks are read and hashed by the time that the depot answers.
    const places = placesOf(first);
    sender.begun = sender.#begin(name, days, first, places);
    sender.#handlePlaced(places);
    sender.#courier.pump();
    return sender;
  }

  async #begin(name: string, days: number, first: readonly Chosen[], places: readonly PlacedEntry[]): Promise<boolean> {
    const key = randomKey();
    const seal = this.#waiting.length <= 1;
    try {
      const transfer = await this.#persist(() => depot.create(name, days, key, first.map(declaration), seal));
      this.#stop.signal.throwIfAborted();
      if (!same(transfer.placed, places)) throw unreadable();
      this.transfer = transfer;
    } catch (error) {
      const isCalledOff = this.#stop.signal.aborted;
      if (!isCalledOff) this.problem = messageOf(error);
      this.close();
      if (isCalledOff) await unmake(key);
      return false;
    }
    this.phase = phaseAfter(this.phase, "begun");
    this.#open();
    this.#proceed();
    this.changed();
    return true;
  }

  /** Goes on with `transfer`, whose manifest is `known`. */
  static goOn(transfer: Transfer, known: readonly Entry[], matched: Matched<Chosen>, options: UploadOptions): Sender {
    const sender = new Sender(options);
    sender.transfer = transfer;
    sender.#take(known, matched);
    sender.#proceed();
    return sender;
  }

  #take(known: readonly Entry[], matched: Matched<Chosen>): void {
    this.#replaced = matched.replaced;
    for (const entry of known) {
      this.#place(entry, entry);
      if (entry.state !== "failed") continue;
      this.upload.handleFailed(entry.entry);
      if (this.isReplaced(entry.entry)) continue;
      this.failures.push({ path: entry.path, reason: entry.reason || "It failed on an earlier visit." });
    }
    this.#failedBefore = this.failures.length;
    this.#declared = known.length;
    for (const { entry, chosen } of matched.known) if (chosen.file) this.#sources.set(entry, chosen.file);
    for (const { entry } of matched.changed) {
      this.#courier.fail({ entry, cause: "changed", detail: "The file is not the same as when the transfer began." });
    }
    for (const { entry } of matched.missing) {
      this.#courier.fail({ entry, cause: "vanished", detail: "The file was not chosen again." });
    }
    for (const { entry } of matched.displaced) {
      this.#courier.fail({ entry, cause: "changed", detail: "What was the folder of it is a file now." });
    }
    this.#plan(batches(matched.added));
  }

  /** Learns what the depot has, and tells it what will not come and what comes. It goes on where it stopped, and never twice at a time:
   * two would take each other's answers for their own. */
  #proceed(): void {
    this.#proceeding ??= this.#steps()
      .catch((error: unknown) => (this.#isTooMuch(error) ? this.#giveBack(error) : this.#refused(error)))
      .finally(() => (this.#proceeding = null));
  }

  async #steps(): Promise<void> {
    if (!this.#known) {
      const { id, state } = this.transfer;
      // One that is finished takes no failures; what is appended opens it again.
      if (state === "partial") await this.#persist(() => depot.append(id, [], this.#declared, false, this.#stop.signal));
      this.upload.handleDurable(await this.#present());
      this.#open();
    }
    // A path that changed is taken again only once its earlier entry has failed.
    await this.#report();
    await this.#declare();
  }

  /** There is no room for all of it, and nothing of it is there yet. */
  #isTooMuch(error: unknown): error is DepotError {
    const isNew = this.#isFresh && !this.#sealed && this.progress().done === 0;
    return isNew && error instanceof DepotError && TOO_MUCH.includes(error.code);
  }

  /** What the depot was told of counts as if it was there, and would be of no use to anybody. */
  async #giveBack(error: DepotError): Promise<void> {
    this.#courier.pause();
    this.changed();
    try {
      // What was under way may have arrived, and another device may be sending into it by now.
      const there = await this.#present();
      if (there.length > 0) {
        this.upload.handleDurable(there);
        return this.#refused(error);
      }
      await this.#persist(() => depot.remove(this.transfer.id, this.holder, this.#stop.signal));
    } catch {
      return this.#refused(error);
    }
    if (this.#stop.signal.aborted) return;
    this.problem =
      `The depot does not take all of this, so nothing was sent, and nothing of it is left there. Send less, or make room first. It says: ${error.message}`;
    this.#unreported = [];
    this.#handleTaken(false);
    this.close();
  }

  /** Until it succeeds, saying why it does not. */
  async #persist<T>(action: () => Promise<T>): Promise<T> {
    const result = await persist(action, this.#stop.signal, (error) => this.#handleAnswer(error));
    this.#handleAnswer(null);
    return result;
  }

  #present(): Promise<BlockRun[]> {
    return this.#persist(() => depot.present(this.transfer.id, this.#stop.signal));
  }

  #handleAnswer(hindrance: DepotError | null): void {
    if (this.hindrance?.message === hindrance?.message) return;
    this.hindrance = hindrance;
    this.changed();
  }

  #open(): void {
    this.#known = true;
    this.#courier.open(this.transfer.id);
    this.#handleKnown();
  }

  /** Another entry of the same path is sent in its place, so that its failure is no loss. */
  isReplaced(entry: EntryIndex): boolean {
    return this.#replaced.has(entry);
  }

  /** The entry that this device keeps waiting for. */
  get waitingFor(): EntryIndex | null {
    return this.#courier.waitingFor;
  }

  progress(): Progress {
    const progress = this.upload.progress(performance.now());
    return { ...progress, total: progress.total + this.#undeclared };
  }

  pause(): void {
    this.#courier.pause();
    this.changed();
  }

  /** After a pause, or after the depot refused and the cause was dealt with. */
  resume(): void {
    const stopped = this.phase === "stopped";
    this.problem = null;
    this.isGone = false;
    this.hindrance = null;
    this.phase = phaseAfter(this.phase, this.#sealed ? "resumedSealed" : "resumed");
    this.changed();
    if (this.#known) this.#courier.resume();
    else this.upload.resume();
    if (stopped) this.#proceed();
  }

  /** Does what is to end it, and ends it here. Nothing is sent meanwhile: all of the browser's connections may be taken, and the
   * depot's answer would wait for one. Where it fails, sending goes on. `false`: it was ended otherwise while that was under way, and
   * something else may be shown in its place by now. */
  async endBy(action: () => Promise<void>): Promise<boolean> {
    const { paused } = this.upload;
    this.pause();
    try {
      await action();
    } catch (error) {
      if (!paused && this.phase !== "done" && this.phase !== "closed") this.resume();
      throw error;
    }
    if (this.phase === "closed") return false;
    this.close();
    return true;
  }

  /** The depot's word on the transfer has changed since it was sent. */
  handleChanged(changed: Transfer): void {
    this.transfer = { ...this.transfer, ...changed };
    this.changed();
  }

  /** Ends it here, for good. What the depot has stays there, for another time, unless the transfer is deleted. */
  close(): void {
    if (this.phase === "closed") return;
    this.#stop.abort();
    this.#early?.abort();
    // Whoever goes on with it another time is to be told.
    if (this.#known && this.phase !== "done") {
      for (let at = 0; at < this.#unreported.length; at += MOST_FAILURES) {
        depot.fail(this.transfer.id, this.#unreported.slice(at, at + MOST_FAILURES)).catch(() => {});
      }
    }
    this.#courier.close();
    this.#hashers?.close();
    this.#handleTaken(true);
    this.phase = phaseAfter(this.phase, "closed");
    this.changed();
  }

  #plan(planned: Chosen[][]): void {
    this.#waiting = planned;
    this.#undeclared = planned.flat().reduce((sum, { size }) => sum + size, 0);
  }

  /** Tells the depot what comes, batch by batch; sending begins with the first. */
  async #declare(): Promise<void> {
    while (this.#waiting.length > 0 || !this.#sealed) {
      const batch = (this.#waiting[0] ?? []).map(declaration);
      const seal = this.#waiting.length <= 1;
      const answer = this.#persist(() => depot.append(this.transfer.id, batch, this.#declared, seal, this.#stop.signal));
      // What was placed before goes out meanwhile. The browser takes requests in their order, so this one comes first.
      this.#courier.pump();
      this.#handlePlaced((await answer).entries);
    }
    this.#handleTaken(true);
    this.#courier.pump();
    this.phase = phaseAfter(this.phase, "declared");
    this.changed();
    void this.#finish();
  }

  /** The first batch that waits is in the manifest now, at these places. */
  #handlePlaced(places: readonly PlacedEntry[]): void {
    const batch = this.#waiting[0] ?? [];
    const isNext = ({ entry }: PlacedEntry, at: number) => entry === this.#declared + at;
    if (places.length !== batch.length || !places.every(isNext)) throw unreadable();
    this.#waiting.shift();
    this.#declared += batch.length;
    places.forEach((placed, at) => {
      const chosen = batch[at]!;
      if (chosen.file) this.#sources.set(placed.entry, chosen.file);
      this.#undeclared -= chosen.size;
      this.#place(chosen, placed);
    });
    if (this.#waiting.length === 0) {
      this.upload.seal();
      this.#sealed = true;
    }
  }

  #place(entry: SentEntry, placed: PlacedEntry): void {
    this.entries[placed.entry] = { path: entry.path, kind: entry.kind, size: entry.size };
    if (placed.address !== null && entry.size > 0) this.upload.append(placed.entry, placed.address, entry.size);
  }

  #handleFailure(failure: SourceFailure): void {
    // What was asked for waits for this one, too.
    this.#early?.abort();
    this.#unreported.push(failure);
    if (!this.#replaced.has(failure.entry)) {
      this.failures.push({ path: this.entries[failure.entry]?.path ?? "", reason: failure.detail });
    }
    this.changed();
    if (this.#known) void this.#tell();
  }

  /** Has the depot know of what failed, as soon as it may be told. */
  async #tell(): Promise<boolean> {
    await this.#whenKnown;
    try {
      await this.#report();
      return true;
    } catch (error) {
      this.#refused(error);
      return false;
    }
  }

  /** Asks for it while the last requests are under way, so that it costs no round trip after them. The depot takes no block of another
   * value than the page's, so it publishes what was sent or nothing; that each value is the same is still for the page to see. */
  #finishEarly(): void {
    if (this.#early || this.phase !== "sending" || this.#unreported.length > 0) return;
    if (!this.upload.underWay || this.upload.delivered) return;
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), WAIT_FOR_ANSWER);
    const answer = depot
      .finish(this.transfer.id, WAIT_TO_FINISH, stop.signal)
      // Why not, it says when it is asked again.
      .catch(() => null)
      .finally(() => clearTimeout(timer));
    this.#early = { answer, abort: () => stop.abort() };
  }

  async #finish(): Promise<void> {
    this.#finishEarly();
    if (this.#finishing || this.phase !== "sending" || !this.upload.delivered || this.upload.paused) return;
    this.#finishing = true;
    try {
      await this.#report();
      this.#stop.signal.throwIfAborted();
      this.phase = phaseAfter(this.phase, "delivered");
      this.changed();
      const early = await this.#early?.answer;
      const finished = early ?? (await this.#persist(() => depot.finish(this.transfer.id)));
      this.#stop.signal.throwIfAborted();
      this.transfer = finished;
      if (this.transfer.state === "open") throw unfinished();
      // Otherwise they are named here already.
      if (finished.failed > this.failures.length) await this.#learnFailures();
      this.#stop.signal.throwIfAborted();
      this.#end();
    } catch (error) {
      const missing = this.#stop.signal.aborted ? null : missingOf(error);
      if (missing && this.upload.handleMissing(missing)) {
        this.phase = phaseAfter(this.phase, "lacking");
        this.#courier.pump();
      } else {
        this.#refused(error);
      }
    } finally {
      this.#finishing = false;
      this.changed();
    }
  }

  /** What did not arrive, as the depot has it: another device may have sent the same meanwhile, and failed at some. */
  async #learnFailures(): Promise<void> {
    const lost: NamedFailure[] = [];
    const learn = (entry: Entry) => {
      if (entry.state !== "failed") return;
      this.upload.handleFailed(entry.entry);
      if (isLost(entry)) lost.push({ path: entry.path, reason: entry.reason || "It failed on another device." });
    };
    try {
      await readManifest(this.transfer.id, this.#stop.signal, (entries) => entries.forEach(learn));
    } catch {
      // It is finished all the same.
      return;
    }
    this.failures.length = 0;
    for (const failure of lost) this.failures.push(failure);
  }

  /** Tells the depot which entries will not come, once each. */
  async #report(): Promise<void> {
    while (this.#unreported.length > 0) {
      // Those that fail at this moment go together.
      this.#reporting ??= Promise.resolve().then(() => this.#reportSome()).finally(() => (this.#reporting = null));
      await this.#reporting;
    }
  }

  async #reportSome(): Promise<void> {
    const some = this.#unreported.slice(0, MOST_FAILURES);
    await this.#persist(() => depot.fail(this.transfer.id, some));
    this.#unreported = this.#unreported.slice(some.length);
  }

  /** The depot takes no more bytes. */
  async #handleRefusal(error: DepotError): Promise<void> {
    if (error.code === "not_open" && this.#early) {
      // It was asked to finish, and has, with the bytes of requests that were called off before their answers came.
      this.#courier.pause();
      try {
        this.upload.handleDurable(await this.#present());
      } catch (cause) {
        return this.#refused(cause);
      }
      if (this.upload.delivered) return this.#courier.resume();
    }
    this.#refused(error);
  }

  /** What `error` comes of. That other entries are where this page's were to be is as another tab, or another device, has appended some.
   * That the depot takes no more may be as one of these has finished the transfer meanwhile, or has deleted it. `null`: it has all that was
   * chosen here. */
  async #causeOf(error: unknown): Promise<unknown> {
    if (error instanceof DepotError && error.code === "manifest_conflict") return goneOnElsewhere();
    // Another tab may have signed in as somebody else, to whom the transfer is not shown.
    if (error instanceof DepotError && error.isNotFound) await depot.session().catch(() => {});
    if (!(error instanceof DepotError) || error.code !== "not_open") return error;
    let now: Transfer;
    try {
      now = await depot.transfer(this.transfer.id);
    } catch (cause) {
      return cause;
    }
    const lacks = this.failures.length > this.#failedBefore || this.#waiting.some((batch) => batch.length > 0);
    if (lacks || now.state !== "complete" || this.#stop.signal.aborted) return finishedElsewhere();
    this.transfer = now;
    // It lacks nothing: what had failed before was sent from elsewhere.
    this.failures.length = 0;
    this.#end();
    return null;
  }

  #end(): void {
    this.phase = phaseAfter(this.phase, "finished");
    this.#courier.close();
    this.#hashers?.close();
    this.changed();
  }

  #refused(error: unknown): void {
    this.#courier.pause();
    // Of several requests each is refused.
    this.#refusing ??= this.#causeOf(error)
      .then((cause) => cause === null || this.#stopFor(cause))
      .finally(() => (this.#refusing = null));
  }

  #stopFor(error: unknown): void {
    if (this.#stop.signal.aborted || this.phase === "stopped" || this.phase === "done") return;
    const isUnknown = error instanceof DepotError && error.isNotFound;
    // To whoever signed in since with another token it may only not be shown.
    this.isGone = isUnknown && session.holder === this.holder;
    this.problem = messageOf(isUnknown && !this.isGone ? DepotError.notShown() : error);
    // There is nothing to go on with yet.
    if (this.phase === "beginning") return this.close();
    this.#isFresh = false;
    this.phase = phaseAfter(this.phase, "refused");
    this.changed();
  }
}

/** One that no other transfer has. */
function randomKey(): string {
  return `page:${toHex(crypto.getRandomValues(new Uint8Array(16)))}`;
}

/** Removes what the depot has made of what was called off while it answered: declared bytes count. That is tried until the depot says yes or
 * no, as nobody would ask for it again. */
async function unmake(key: string): Promise<void> {
  const remove = async () => {
    for (const { id } of (await depot.madeWith(key)).transfers) await depot.remove(id, session.holder);
  };
  // The sender's own signal has ended already: that is why.
  await persist(remove, new AbortController().signal).catch(() => {});
}

function declaration({ path, kind, size, mtime, mtime_nanos }: Chosen): NewEntry {
  return { path, kind, size, mtime, mtime_nanos, mode: kind === "directory" ? 0o755 : 0o644 };
}

/** Where the depot places the first entries of a manifest. */
function placesOf(batch: readonly Chosen[]): PlacedEntry[] {
  const layout = new Layout();
  return batch.map(({ size }, entry) => ({ entry, address: layout.append(size) }));
}

function same(a: readonly PlacedEntry[], b: readonly PlacedEntry[]): boolean {
  return a.length === b.length && a.every(({ entry, address }, at) => entry === b[at]!.entry && address === b[at]!.address);
}

function unreadable(): DepotError {
  return new DepotError("bad_answer", "The depot has placed the files otherwise than it should: reload the page, then resume from the list of transfers.", 200, false);
}

function unfinished(): DepotError {
  return new DepotError("bad_answer", "The depot has not finished the transfer, and does not say why: try again.", 200, false);
}

function goneOnElsewhere(): DepotError {
  return new DepotError("manifest_conflict", "It was resumed from elsewhere meanwhile, and has other files now: cancel, keep it for later, and resume from the list of transfers.", 409, false);
}

function finishedElsewhere(): DepotError {
  return new DepotError("not_open", "It was finished from elsewhere meanwhile: look at the list of transfers, and resume from there if something is missing.", 409, false);
}

function missingOf(error: unknown): BlockRun[] | null {
  if (!(error instanceof DepotError) || error.code !== "incomplete") return null;
  const body = error.body as { missing?: BlockRun[]; error?: { missing?: BlockRun[] } } | null;
  return body?.missing ?? body?.error?.missing ?? null;
}
