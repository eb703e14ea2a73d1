import { useEffect, useState } from "preact/hooks";
import { depot } from "../api/depot";
import type { Transfer } from "../api/types";
import { visible } from "../engine/visible";
import { announce } from "../ui/announcer";
import { Notice } from "../ui/notice";
import { TransferCard } from "./transfer_card";

const PAGE = 50;

/** The owner's transfers, newest first. */
export function Transfers({ sending, onResume }: { sending: string | null; onResume: (transfer: Transfer) => void }) {
  const [transfers, setTransfers] = useState<Transfer[] | null>(null);
  const [next, setNext] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);

  const attempt = async (action: () => Promise<void>) => {
    try {
      setProblem(null);
      await action();
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const load = (before?: string) =>
    attempt(async () => {
      const page = await depot.transfers(PAGE, before);
      setTransfers((known) => [...(before ? (known ?? []) : []), ...page.transfers]);
      setNext(page.next);
    });
  useEffect(() => {
    document.title = "My transfers · Terahaul";
  }, []);
  // When one has been sent, it is another state that it has.
  useEffect(() => void load(), [sending]);

  const extend = (transfer: Transfer, days: number) =>
    attempt(async () => {
      const changed = await depot.extend(transfer.id, days);
      setTransfers((known) => known?.map((one) => (one.id === changed.id ? { ...one, ...changed } : one)) ?? null);
      announce("Expiry changed", true);
    });
  const remove = (transfer: Transfer) =>
    attempt(async () => {
      await depot.remove(transfer.id);
      setTransfers((known) => known?.filter((one) => one.id !== transfer.id) ?? null);
      announce(`${visible(transfer.name)} deleted`, true);
    });

  return (
    <main>
      <h1>My transfers</h1>
      {problem && <Notice kind="error">{problem}</Notice>}
      {!transfers && !problem && <p role="status">Loading…</p>}
      {transfers?.length === 0 && (
        <section class="card empty">
          <p>Nothing here yet.</p>
          <a class="button primary" href="#/send">Send something</a>
        </section>
      )}
      <ul class="cards">
        {transfers?.map((transfer) => (
          <TransferCard
            key={transfer.id}
            transfer={transfer}
            sending={sending === transfer.id}
            busy={sending !== null}
            onExtend={(days) => extend(transfer, days)}
            onRemove={() => remove(transfer)}
            onResume={() => onResume(transfer)}
          />
        ))}
      </ul>
      {next && <button onClick={() => void load(next)}>Show more</button>}
    </main>
  );
}
