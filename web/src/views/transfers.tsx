import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { depot } from "../api/depot";
import { session } from "../api/session";
import type { Transfer } from "../api/types";
import { visible } from "../engine/visible";
import { announce } from "../ui/announcer";
import { useFallbackFocus } from "../ui/heading";
import { Notice } from "../ui/notice";
import { TransferCard } from "./transfer_card";
import { transfersTitle } from "./transfers_title";

const PAGE = 50;

interface Props {
  sending: string | null;
  onResume: (transfer: Transfer) => void;
  /** What a transfer has become: `null` if it is deleted. */
  onChanged: (id: string, changed: Transfer | null) => void;
}

/** The transfers that whoever is signed in may see, newest first. */
export function Transfers({ sending, onResume, onChanged }: Props) {
  const [transfers, setTransfers] = useState<Transfer[] | null>(null);
  const [next, setNext] = useState<string | null>(null);
  /** Why the list could not be read, and after which transfer. */
  const [problem, setProblem] = useState<{ message: string; before: string | undefined } | null>(null);

  const heading = useRef<HTMLHeadingElement>(null);
  /** The transfer whose card takes the focus: what had it is about to go. */
  const focusNext = useRef<string | null>(null);
  /** The latest look at the list, which alone counts. */
  const looks = useRef(0);
  /** Who saw it. */
  const holder = useRef(session.holder);

  const load = async (before?: string) => {
    const look = ++looks.current;
    try {
      const page = await depot.transfers(PAGE, before);
      if (look !== looks.current) return;
      holder.current = session.holder;
      if (before) focusNext.current = page.transfers[0]?.id ?? null;
      setTransfers((known) => [...(before ? (known ?? []) : []), ...page.transfers]);
      setNext(page.next);
      setProblem(null);
    } catch (error) {
      if (look === looks.current) setProblem({ message: (error as Error).message, before });
    }
  };
  useEffect(() => {
    document.title = `${transfersTitle()} · Terahaul`;
  }, []);
  // When one has been sent, it is another state that it has.
  useEffect(() => void load(), [sending]);
  const unread = transfers === null || (transfers.length === 0 && next !== null);
  // All that was read has been deleted.
  useEffect(() => {
    if (transfers && unread && next !== null) void load(next);
  }, [transfers]);
  useLayoutEffect(() => {
    if (focusNext.current !== null) document.getElementById(`transfer-${focusNext.current}`)?.querySelector("a")?.focus();
    focusNext.current = null;
  }, [transfers]);
  useFallbackFocus(heading, transfers?.length);
  // As soon as it is seen: the device may be online in the next moment, and that is said once.
  useLayoutEffect(() => {
    if (!problem) return;
    const again = () => void load(problem.before);
    addEventListener("online", again);
    return () => removeEventListener("online", again);
  }, [problem]);

  const extend = async (transfer: Transfer, days: number, signal: AbortSignal) => {
    const changed = await depot.extend(transfer.id, days, signal);
    setTransfers((known) => known?.map((one) => (one.id === changed.id ? { ...one, ...changed } : one)) ?? null);
    onChanged(transfer.id, changed);
    announce("Expiry changed", true);
  };
  const remove = async (transfer: Transfer, signal: AbortSignal) => {
    await depot.remove(transfer.id, holder.current, signal);
    onChanged(transfer.id, null);
    const at = transfers?.findIndex(({ id }) => id === transfer.id) ?? 0;
    focusNext.current = (transfers?.[at + 1] ?? transfers?.[at - 1])?.id ?? null;
    setTransfers((known) => known?.filter((one) => one.id !== transfer.id) ?? null);
    announce(`${visible(transfer.name)} deleted`, true);
  };
  // Where the rest of the list would be.
  const notice = problem && (
    <Notice kind="error">
      {problem.message} <button onClick={() => void load(problem.before)}>Try again</button>
    </Notice>
  );

  return (
    <main>
      <h1 ref={heading} tabIndex={-1}>{transfersTitle()}</h1>
      {problem?.before === undefined && notice}
      {unread && !problem && <p role="status">Loading…</p>}
      {!unread && transfers.length === 0 && (
        <section class="card empty">
          <p>Nothing here yet.</p>
          {session.maySend && <a class="button primary" href="#/send">Send something</a>}
        </section>
      )}
      <ul class="cards">
        {transfers?.map((transfer) => (
          <TransferCard
            key={transfer.id}
            transfer={transfer}
            sending={sending === transfer.id}
            busy={sending !== null}
            onExtend={(days, signal) => extend(transfer, days, signal)}
            onRemove={(signal) => remove(transfer, signal)}
            onResume={() => onResume(transfer)}
          />
        ))}
      </ul>
      {problem?.before !== undefined ? notice : next && !unread && <button onClick={() => void load(next)}>Show more</button>}
    </main>
  );
}
