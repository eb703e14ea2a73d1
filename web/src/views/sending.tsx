import { useEffect, useState } from "preact/hooks";
import { plural } from "../engine/plural";
import { share as shareOf } from "../engine/share";
import { visible } from "../engine/visible";
import type { Sender } from "../send/sender";
import { announce } from "../ui/announcer";
import { Bar } from "../ui/bar";
import { Button } from "../ui/button";
import { bytes, duration, percent, speed } from "../ui/format";
import { useFocusedHeading } from "../ui/heading";
import { useObservable, useTick } from "../ui/live";
import { Name } from "../ui/name";
import { Notice } from "../ui/notice";
import { Words } from "../ui/words";
import { Failures } from "./failures";
import { hindered } from "./hindered";
import { sendingTitle } from "./sending_title";
import { SentList } from "./sent_list";
import { StopSending } from "./stop_sending";

/** A transfer on its way. */
export function Sending({ sender, onClosed }: { sender: Sender; onClosed: () => void }) {
  const heading = useFocusedHeading();
  const [asking, setAsking] = useState(false);
  useObservable(sender);
  useTick(sender.phase === "sending" || sender.phase === "declaring", 500);
  // Of what is gone there is nothing to keep or to delete.
  useEffect(() => {
    if (sender.isGone) setAsking(false);
  }, [sender.isGone]);
  const { upload, phase, transfer } = sender;
  const progress = sender.progress();
  const slow = sender.waitingFor;
  const sent = progress.done + progress.inFlight;
  const part = shareOf(progress.done, progress.inFlight, progress.total);
  const share = percent(part, 1);
  const active = phase === "sending" && !upload.paused && upload.reachable;

  const title = sendingTitle({ phase, paused: upload.paused, reachable: upload.reachable, hindrance: sender.hindrance?.code ?? null }, share);
  useEffect(() => {
    document.title = `${title} · ${visible(transfer.name)} · Terahaul`;
  }, [title]);
  useEffect(() => {
    if (active) announce(`${share} per cent sent${progress.secondsLeft === null ? "" : `, ${duration(progress.secondsLeft)} left`}`);
  }, [share]);

  // What is not tried again comes first: a transfer may be gone with the connection.
  const status = phase === "stopped"
    ? "Stopped"
    : !upload.reachable
      ? hindered(sender.hindrance)
      : upload.paused
        ? "Paused"
        : sender.hindrance
          ? hindered(sender.hindrance)
          : phase === "declaring"
            ? `Telling the depot what comes: ${plural(sender.entries.length, "item")}`
            : phase === "finishing"
              ? "Making sure that everything is stored…"
              : slow !== null
                ? `Waiting for this device to read ${visible(sender.entries[slow]?.path ?? "a file")}: if it was changed, cancel and choose it again`
                : active && progress.done < progress.total && sent >= progress.total
                  ? "Waiting for the depot's answers"
                  : active && upload.isSilent(performance.now())
                    ? "Nothing has moved for some time: waiting for the network or the depot"
                    : "Sending";

  return (
    <main>
      <h1 ref={heading} tabIndex={-1} class="break"><Name>{transfer.name}</Name></h1>
      {sender.problem && <Notice kind="error">{sender.problem}</Notice>}
      <section class="card meter">
        <p class="status" role="status"><Words>{status}</Words></p>
        <p class="share" translate={false}><span>{share}</span> %</p>
        <Bar value={part} label="Whole transfer" />
        <dl class="figures">
          <div><dt>Sent</dt><dd translate={false}>{bytes(sent)} <span class="quiet">of {bytes(progress.total)}</span></dd></div>
          <div><dt>Speed</dt><dd translate={false}>{active ? speed(progress.bytesPerSecond) : "–"}</dd></div>
          <div><dt>Time left</dt><dd translate={false}>{active && progress.secondsLeft !== null ? duration(progress.secondsLeft) : "–"}</dd></div>
          <div class="wide-only"><dt>Requests</dt><dd translate={false}>{progress.requests}</dd></div>
        </dl>
        <div class="buttons">
          {/* It is the same button for each, so that it keeps the focus. */}
          {phase === "stopped" ? (
            <Button class="primary" onClick={() => sender.resume()}><Words>Try again</Words></Button>
          ) : upload.paused ? (
            <Button class="primary" onClick={() => sender.resume()}><Words>Continue</Words></Button>
          ) : (
            <Button held={phase === "finishing"} onClick={() => sender.pause()}><Words>Pause</Words></Button>
          )}
          <button onClick={() => (sender.isGone ? onClosed() : setAsking(true))}>Cancel</button>
        </div>
      </section>
      <FailureList sender={sender} />
      <SentList sender={sender} />
      {asking && <StopSending sender={sender} onStopped={onClosed} onClose={() => setAsking(false)} />}
    </main>
  );
}

/** Files that will not arrive, by name. */
export function FailureList({ sender }: { sender: Sender }) {
  return <Failures all={sender.failures} text={`${plural(sender.failures.length, "file")} could not be sent`} />;
}
