import { render } from "preact";
import { carriesFiles } from "./send/drop";
import { linkOf } from "./views/address";
import { App, Frame } from "./views/app";
import { Receive } from "./views/receive";

// A file that is let go beside the place for it would be opened in place of the page.
for (const type of ["dragover", "drop"] as const) {
  addEventListener(type, (event) => {
    if (event.defaultPrevented || !carriesFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "none";
  });
}

const root = document.getElementById("app")!;
root.replaceChildren();
const received = linkOf(location.pathname, location.hash);

if (received) {
  const { id, secret, clean } = received;
  if (clean !== null) history.replaceState(null, "", clean);
  render(<Frame><Receive id={id} secret={secret} /></Frame>, root);
  // Another link to the same transfer was opened here.
  addEventListener("hashchange", () => location.reload());
} else {
  render(<App />, root);
}
