import { useEffect } from "preact/hooks";
import type { Receiver } from "../receive/receiver";
import { announce } from "../ui/announcer";
import { Bar } from "../ui/bar";
import { bytes, duration, percent, plural, speed } from "../ui/format";
import { useLeaveWarning, useObservable, useTick } from "../ui/live";
import { Notice } from "../ui/notice";

/** A transfer on its way into a folder. */
export function Receiving({ receiver, onClosed }: { receiver: Receiver; onClosed: () => void }) {
  useObservable(receiver);
  const active = receiver.phase === "receiving";
  useTick(active, 500);
  useLeaveWarning(active);
  const figures = receiver.figures();
  const share = percent(receiver.received, receiver.total);
  useEffect(() => {
    if (active) announce(`${share} per cent received`);
    else announce(receiver.phase === "done" ? "Everything is received and verified" : "Stopped", true);
  }, [share, active]);
  const { comparing, failures, problem, phase } = receiver;
  return (
    <section class="card meter">
      <p class="status" role="status">
        {active ? "Receiving and verifying" : phase === "done" ? `${plural(receiver.files, "file")} received and verified` : "Stopped"}
      </p>
      <p class="share"><span>{share}</span> %</p>
      <Bar value={receiver.total === 0 ? 1 : receiver.received / receiver.total} label="Whole transfer" />
      {active && (
        <dl class="figures">
          <div><dt>Received</dt><dd>{bytes(receiver.received)} <span class="quiet">of {bytes(receiver.total)}</span></dd></div>
          <div><dt>Speed</dt><dd>{speed(figures.bytesPerSecond)}</dd></div>
          <div><dt>Time left</dt><dd>{figures.secondsLeft === null ? "–" : duration(figures.secondsLeft)}</dd></div>
        </dl>
      )}
      {active && comparing && (
        <p class="quiet break">
          Comparing {comparing.path}, which is there already: {percent(comparing.done, comparing.size)} % of {bytes(comparing.size)}
        </p>
      )}
      {problem && <Notice kind="error">{problem} What is complete stays; saving into the same folder again goes on from there.</Notice>}
      {failures.length > 0 && (
        <Notice kind="error">
          {plural(failures.length, "item")} not saved:
          <ul>{failures.slice(0, 100).map(({ path, reason }) => <li key={path}><b>{path}</b>: {reason}</li>)}</ul>
        </Notice>
      )}
      <div class="buttons">{active ? <button onClick={() => receiver.stop()}>Stop</button> : <button onClick={onClosed}>Close</button>}</div>
    </section>
  );
}
