import { useEffect, useRef } from "preact/hooks";
import { plural } from "../engine/plural";
import { visible } from "../engine/visible";
import type { Receiver } from "../receive/receiver";
import { announce } from "../ui/announcer";
import { Bar } from "../ui/bar";
import { FirstOf } from "../ui/first_of";
import { bytes, duration, percent, speed } from "../ui/format";
import { useFallbackFocus } from "../ui/heading";
import { useLeaveWarning, useObservable, useTick } from "../ui/live";
import { Name } from "../ui/name";
import { Notice } from "../ui/notice";
import { Words } from "../ui/words";
import { Failures } from "./failures";
import { hindered } from "./hindered";
import type { LinkProblem } from "./link_problem";
import { ProblemText } from "./problem_text";
import { receivingTitle } from "./receiving_title";

interface Props {
  receiver: Receiver;
  name: string;
  /** What to say of an error that ended it. */
  explained: (error: NonNullable<Receiver["problem"]>) => LinkProblem;
  onClosed: () => void;
}

/** A transfer called `name` on its way into a folder. */
export function Receiving({ receiver, name, explained, onClosed }: Props) {
  useObservable(receiver);
  const asking = receiver.phase === "asking";
  const active = receiver.phase === "receiving" || asking;
  useTick(active, 500);
  useLeaveWarning(active);
  const state = useRef<HTMLParagraphElement>(null);
  useFallbackFocus(state, asking);
  const figures = receiver.figures();
  const share = percent(figures.share, 1);
  const { comparing, failures, files, hindrance, others, problem, phase } = receiver;
  const comes = active && !asking && !hindrance;
  const title = receivingTitle({ phase, hindrance: hindrance?.code ?? null, files, failures: failures.length }, share);
  useEffect(() => {
    document.title = `${title} · ${visible(name)} · Terahaul`;
  }, [title]);
  useEffect(() => () => {
    document.title = `${visible(name)} · Terahaul`;
  }, []);
  const status = asking
    ? "Waiting for an answer"
    : !active
      ? phase === "done" ? `${plural(files, "file")} received and verified` : "Stopped"
      : hindrance ? hindered(hindrance) : "Receiving and verifying";
  useEffect(() => {
    if (active) announce(`${share} per cent received`);
    else if (phase === "stopped") announce("Stopped", true);
    else announce(failures.length === 0 ? `${plural(files, "file")} saved` : `${plural(failures.length, "item")} not saved`, true);
  }, [share, active]);
  return (
    <section class="card meter">
      <p ref={state} tabIndex={-1} class="status" role="status"><Words>{status}</Words></p>
      <p class="share" translate={false}><span>{share}</span> %</p>
      <Bar value={figures.share} label="Whole transfer" />
      {active && (
        <dl class="figures">
          <div><dt>Received</dt><dd translate={false}>{bytes(figures.received)} <span class="quiet">of {bytes(receiver.total)}</span></dd></div>
          <div><dt>Speed</dt><dd translate={false}>{speed(comes ? figures.bytesPerSecond : null)}</dd></div>
          <div><dt>Time left</dt><dd translate={false}>{comes && figures.secondsLeft !== null ? duration(figures.secondsLeft) : "–"}</dd></div>
        </dl>
      )}
      {active && comparing && (
        <p class="quiet break">
          Comparing <Name>{comparing.path}</Name>, which is there already: {percent(comparing.done, comparing.size)} % of {bytes(comparing.size)}
        </p>
      )}
      {asking && (
        <Notice
          kind="error"
          below={
            <>
              <FirstOf all={others}>{(path) => <Name>{path}</Name>}</FirstOf>
              <div class="buttons">
                <button autofocus onClick={() => receiver.answer(false)}>Leave {others.length === 1 ? "it" : "them"}</button>
                <button class="danger" onClick={() => receiver.answer(true)}>Replace {others.length === 1 ? "it" : "them"}</button>
              </div>
            </>
          }
        >
          {plural(others.length, "file")} of the same name but with other content {others.length === 1 ? "is" : "are"} in this folder:
        </Notice>
      )}
      {problem && (
        <Notice kind="error">
          <ProblemText problem={explained(problem)} /> {receiver.mayGoOn && "What is complete stays; saving into the same folder again goes on from there."}
        </Notice>
      )}
      <Failures all={failures} text={`${plural(failures.length, "item")} not saved`} />
      <div class="buttons">{active ? <button onClick={() => receiver.stop()}><Words>Stop</Words></button> : <button onClick={onClosed}><Words>Close</Words></button>}</div>
    </section>
  );
}
