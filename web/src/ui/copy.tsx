import { useState } from "preact/hooks";
import { announce } from "./announcer";
import { CheckIcon, LinkIcon } from "./icons";
import { Words } from "./words";

/** Copies `text`; says so on the button for a moment. */
export function CopyButton({ text, label, what, primary = false }: { text: string; label: string; what: string; primary?: boolean }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // No clipboard outside secure contexts: let the person copy by hand.
      prompt(`Copy the ${what}:`, text);
      return;
    }
    setCopied(true);
    announce(`${what} copied`, true);
    setTimeout(() => setCopied(false), 2000);
  };
  return (
    <button type="button" class={primary ? "primary" : ""} onClick={copy}>
      {copied ? <CheckIcon /> : <LinkIcon />}
      <Words>{copied ? "Copied" : label}</Words>
    </button>
  );
}
