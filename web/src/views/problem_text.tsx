import type { LinkProblem } from "./link_problem";

/** What keeps somebody from a transfer, and what to do. */
export function ProblemText({ problem: { text, maySignIn } }: { problem: LinkProblem }) {
  return <>{text}{maySignIn && <> If the transfer is your own, <a href="/">sign in</a>.</>}</>;
}
