import assert from "node:assert/strict";
import { test } from "node:test";
import { depot } from "../../src/api/depot";
import { session } from "../../src/api/session";
import type { SessionInfo } from "../../src/api/types";
import { put } from "../../src/send/put";

const REFUSED = JSON.stringify({ error: { code: "unauthorized", message: "Sign in.", retry: false } });

const SESSION = JSON.stringify({ scopes: ["send"], label: "microscope", expires_in_days: 14 });

test("a refusal of what began before somebody signed in again ends no session, and is tried again", async (t) => {
  const answers: ((response: Response) => void)[] = [];
  t.mock.method(globalThis, "fetch", () => new Promise<Response>((resolve) => answers.push(resolve)));
  const accept = () => answers.pop()!(new Response(SESSION));
  const refuse = () => answers.pop()!(new Response(REFUSED, { status: 401 }));
  const signIn = async () => {
    const signedIn = depot.signIn({ token: "tht_" });
    accept();
    await signedIn;
    assert.equal(session.state, "in");
  };
  const ends = async () => {
    const asked = depot.transfer("t");
    refuse();
    await assert.rejects(asked, { status: 401, retry: false });
    assert.equal(session.state, "ended");
  };
  const uploads: XMLHttpRequest[] = [];
  class Upload {
    readonly upload = {};
    readonly status = 401;
    readonly responseText = REFUSED;
    open() {}
    setRequestHeader() {}
    send() {
      uploads.push(this as unknown as XMLHttpRequest);
    }
  }
  Object.assign(globalThis, { XMLHttpRequest: Upload });

  await signIn();
  const late = depot.transfer("t");
  const refuseLate = answers.pop()!;
  const lateUpload = put("t", 0, new ArrayBuffer(1), [], () => {});
  await ends();
  await signIn();
  refuseLate(new Response(REFUSED, { status: 401 }));
  await assert.rejects(late, { code: "unauthorized", status: 401, retry: true });
  uploads[0]!.onload!({} as ProgressEvent);
  await assert.rejects(lateUpload.answer, { code: "unauthorized", status: 401, retry: true });
  assert.equal(session.state, "in");
  await ends();
});

test("a browser that keeps no cookie is not told that its session has ended", async (t) => {
  let answer = () => new Response(SESSION);
  t.mock.method(globalThis, "fetch", async () => answer());
  const refused = async () => {
    answer = () => new Response(REFUSED, { status: 401 });
    await assert.rejects(depot.transfer("t"), { status: 401 });
    assert.equal(session.state, "ended");
    return session.isCookieless;
  };
  await depot.signIn({ token: "tht_" });
  assert.equal(await refused(), true);
  answer = () => new Response(SESSION);
  await depot.signIn({ token: "tht_" });
  assert.equal(session.isCookieless, false);
  answer = () => new Response(JSON.stringify({ id: "t", state: "complete", expires: 0, bytes: 0 }));
  await depot.transfer("t");
  assert.equal(await refused(), false, "it was kept");
  answer = () => new Response(SESSION);
  await depot.session();
  assert.equal(await refused(), false, "it is by a cookie that a session is asked for");
});

test("a transfer that is not shown to whoever is signed in now was not deleted", async (t) => {
  const error = { code: "not_found", message: "there is no such transfer", retry: false };
  const signedIn = { token: "a", scopes: ["send"], label: "microscope" };
  t.mock.method(globalThis, "fetch", async (url: string) =>
    url.endsWith("/session") ? Response.json(signedIn) : Response.json({ error }, { status: 404 }),
  );
  await depot.session();
  const holder = session.holder;
  await depot.remove("t", holder);
  // In another tab.
  signedIn.token = "b";
  await assert.rejects(depot.remove("t", holder), { message: /does not see this transfer/ });
  error.code = "http_404";
  signedIn.token = "a";
  await assert.rejects(depot.remove("t", holder), { status: 404 }, "a proxy's own");
});

test("who is signed in decides what a list has, whether anything is taken, and how long the depot keeps what nobody says otherwise of", () => {
  const told = (scopes: SessionInfo["scopes"], expires_in_days?: number) => {
    session.handleAccepted({ scopes, label: "", ...(expires_in_days === undefined ? {} : { expires_in_days }) });
    return [session.seesOthers, session.maySend, session.days];
  };
  assert.deepEqual(told(["send"], 14), [false, true, 14]);
  assert.deepEqual(told(["send", "receive"], 14), [true, true, 14]);
  assert.deepEqual(told(["receive"], 14), [true, false, 14]);
  assert.deepEqual(told(["own"]), [true, true, 30], "an older depot does not say");
});
