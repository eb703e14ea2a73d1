import assert from "node:assert/strict";
import { test } from "node:test";
import { type Allowed, Following } from "../../src/ui/following";

const PLAIN = { button: 0, ctrlKey: false, metaKey: false, shiftKey: false, altKey: false };
const yes: Allowed = async () => true;

/** Follows links; `saved` is what came of it, and `click` tells whether the browser still does what it does with a link. */
function setUp() {
  const saved: string[] = [];
  const following = new Following((href, name) => saved.push(`${href} ${name}`));
  const click = (allowed: Allowed, how: Partial<typeof PLAIN> = {}, href = "/zip") => {
    let left = true;
    const done = following.handleClick({ ...PLAIN, ...how, preventDefault: () => (left = false) }, href, "all", allowed);
    return { left, done };
  };
  return { saved, click };
}

test("a download begins once the depot is known to give it, and not before", async () => {
  const { saved, click } = setUp();
  let allow!: (given: boolean) => void;
  const { left, done } = click(() => new Promise((resolve) => (allow = resolve)));
  assert.deepEqual([left, saved], [false, []]);
  allow(true);
  await done;
  assert.deepEqual(saved, ["/zip all"]);
});

test("what the depot does not give is not begun, and may be tried again", async () => {
  const { saved, click } = setUp();
  await click(async () => false).done;
  assert.deepEqual(saved, []);
  await click(yes).done;
  assert.deepEqual(saved, ["/zip all"]);
});

test("two clicks on a link are one download, and clicks on two links two", async () => {
  const { saved, click } = setUp();
  await Promise.all([click(yes).done, click(yes).done, click(yes, {}, "/files/1").done]);
  assert.deepEqual(saved, ["/zip all", "/files/1 all"]);
});

test("a click that asks the browser for a tab, a window or a menu is left to the browser", async () => {
  const { saved, click } = setUp();
  for (const how of [{ button: 1 }, { ctrlKey: true }, { metaKey: true }, { shiftKey: true }, { altKey: true }]) {
    const { left, done } = click(() => assert.fail("nothing is asked"), how);
    await done;
    assert.equal(left, true);
  }
  assert.deepEqual(saved, []);
});
