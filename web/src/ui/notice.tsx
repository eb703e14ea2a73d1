import type { ComponentChildren } from "preact";
import { WarningIcon } from "./icons";

/** A message that stays: `role` makes screen readers say it when it appears. */
export function Notice({ kind, children }: { kind: "error" | "info"; children: ComponentChildren }) {
  return (
    <div class={`notice ${kind}`} role={kind === "error" ? "alert" : "status"}>
      <WarningIcon />
      <div>{children}</div>
    </div>
  );
}
