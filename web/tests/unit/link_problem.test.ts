import assert from "node:assert/strict";
import { test } from "node:test";
import { linkProblem } from "../../src/views/link_problem";

test("a link that does not work may have been cut short, and without its secret it may be its owner's", () => {
  const problem = (status: number, secret: boolean) => linkProblem({ message: "The depot's own.", status }, secret, false);
  assert.match(problem(404, true).text, /not copied whole, or the transfer expired or was deleted/);
  assert.match(problem(401, false).text, /the whole link/);
  assert.deepEqual([problem(401, false).maySignIn, problem(401, true).maySignIn, problem(404, false).maySignIn], [true, false, false]);
  assert.deepEqual(problem(429, true), { text: "The depot's own.", maySignIn: false, gone: false });
});

test("of a link that works, and whose cookie does not come back, it is not said that it is not whole", () => {
  const problem = linkProblem({ message: "", status: 401 }, true, true);
  assert.deepEqual([problem.maySignIn, problem.gone], [false, false]);
  assert.match(problem.text, /does not keep the depot's cookie: allow cookies/);
  assert.match(linkProblem({ message: "", status: 401 }, false, true).text, /the whole link/);
});

test("what a server on the way has not found is not gone", () => {
  const problem = linkProblem({ message: "A server on the way.", status: 404, isOthers: true }, true, true);
  assert.deepEqual(problem, { text: "A server on the way.", maySignIn: false, gone: false });
});

test("of a link that did work it is not said that it was cut short", () => {
  const problem = linkProblem({ message: "", status: 404 }, true, true);
  assert.match(problem.text, /no longer here: it was deleted, or it expired/);
  assert.equal(problem.gone, true);
});
