import { render } from "preact";
import { App, Frame } from "./views/app";
import { Receive } from "./views/receive";

// A file that is let go beside the place for it would be opened in place of the page.
for (const type of ["dragover", "drop"] as const) {
  addEventListener(type, (event) => {
    if (event.defaultPrevented || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "none";
  });
}

const root = document.getElementById("app")!;
const received = /^\/t\/([^/]+)\/?$/.exec(location.pathname);

if (received) {
  // `#<secret>` or `#<secret>&fp=<fingerprint>`; the fingerprint is for the command line.
  const secret = location.hash.slice(1).split("&")[0] || null;
  render(<Frame><Receive id={received[1]!} secret={secret} /></Frame>, root);
  // Another link to the same transfer was opened here.
  addEventListener("hashchange", () => location.reload());
} else {
  root.replaceChildren();
  render(<App />, root);
}
