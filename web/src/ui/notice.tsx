import type { ComponentChildren } from "preact";
import { CheckIcon, WarningIcon } from "./icons";

interface NoticeProps {
  kind: "error" | "info" | "done";
  /** Names and buttons under it, which are not read out with it: at each change all that is would be. */
  below?: ComponentChildren;
  /** It changes while it is looked at: whoever shows it says so, and not at each change. */
  grows?: boolean;
  children: ComponentChildren;
}

/** A message that stays: `role` makes screen readers say it when it appears. */
export function Notice({ kind, below, grows = false, children }: NoticeProps) {
  return (
    <div class={`notice ${kind}`}>
      {kind === "done" ? <CheckIcon /> : <WarningIcon />}
      <div>
        <div role={grows ? undefined : kind === "error" ? "alert" : "status"}>{children}</div>
        {below}
      </div>
    </div>
  );
}
