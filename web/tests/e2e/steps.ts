/** What a person does on the page, step by step. */
import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { drop } from "./browser";
import type { RunningDepot } from "./depot";
import type { Line } from "./line";

const ARRIVED = /Sent, stored and verified|Sent, except for/;

export async function signIn(page: Page, depot: Pick<RunningDepot, "page">): Promise<void> {
  await page.goto(depot.page);
  await page.getByRole("heading", { name: "Send", exact: true }).waitFor();
}

/** Signs in with the token: a one-time code works once. */
export async function signInWithToken(page: Page, depot: Pick<RunningDepot, "url" | "token">): Promise<void> {
  await page.goto(`${depot.url}/`);
  await page.getByLabel("Access token").fill(depot.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("link", { name: "Transfers" }).waitFor();
}

/** Drops `folders`, if any, and presses send. */
export async function startSending(page: Page, folders: string[], name?: string): Promise<void> {
  if (folders.length > 0) await drop(page, folders);
  const send = page.getByRole("button", { name: /^Send [\d,]+ files?, / });
  await send.waitFor();
  if (name) await page.getByLabel("Name").fill(name);
  await send.click();
}

/** Waits until the depot has taken what was begun: “Cancel” and “Sign out” do something else before. */
export function isUnderWay(page: Page): Promise<void> {
  return page.getByRole("button", { name: "Pause" }).waitFor();
}

/** Drops `folders`, presses send, and waits until about so many bytes are through, and the page shows it: no more are, until the line is cut or
 * mended. */
export async function sendPart(page: Page, line: Line, bytes: number, folders: string[], name?: string): Promise<void> {
  const reached = line.hold(bytes);
  await startSending(page, folders, name);
  await reached;
  await isUnderWay(page);
}

/** Waits for the end and returns the link. */
export async function arrived(page: Page, timeout = 60_000): Promise<string> {
  try {
    await page.locator(".done .status", { hasText: ARRIVED }).waitFor({ timeout });
  } catch (cause) {
    throw new Error(`it did not arrive; the page says: ${(await page.locator("main").innerText()).slice(0, 800)}`, { cause });
  }
  const link = await page.getByLabel("Anyone with this link can download it").inputValue();
  assert.match(link, /\/t\/[^#]+#thl_/);
  return link;
}

/** Per cent shown now. */
export async function share(page: Page): Promise<number> {
  return Number(await page.locator(".share span").textContent());
}

/** Waits until so many tabs share the browser's connections. */
export async function busyTabs(page: Page, count: number): Promise<void> {
  const are = async (count: number) => (await navigator.locks.query()).held!.filter(({ name }) => name === "terahaul-busy").length === count;
  await page.waitForFunction(are, count);
}

/** Makes "Save into a folder" write into the browser's private file system instead of asking. */
export async function answerFolderPicker(page: Page): Promise<void> {
  await page.addInitScript(() => {
    Object.assign(window, { showDirectoryPicker: () => navigator.storage.getDirectory() });
  });
}

/** What was saved there, hashed as `files.listing` does. */
export function savedListing(page: Page): Promise<Record<string, string>> {
  return page.evaluate(async () => {
    const found: Record<string, string> = {};
    const folders: [string, FileSystemDirectoryHandle][] = [["", await navigator.storage.getDirectory()]];
    for (let folder = folders.pop(); folder; folder = folders.pop()) {
      for await (const [name, handle] of folder[1].entries()) {
        const path = folder[0] + name;
        if (handle.kind === "directory") {
          found[`${path}/`] = "";
          folders.push([`${path}/`, handle as FileSystemDirectoryHandle]);
        } else {
          const bytes = await (await (handle as FileSystemFileHandle).getFile()).arrayBuffer();
          const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
          found[path] = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
        }
      }
    }
    return found;
  });
}
