//! Helpers that list folders ahead of the walk.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::carried::Carried;
use super::node::{Node, Output};
use crate::{Filter, Roots};

/// Entries that helpers may hold ready, which bounds the walk's memory.
const MOST_AHEAD: usize = 32 * 1024;

pub(super) struct Pool<'a> {
    roots: &'a Roots,
    filter: &'a Filter,
    carried: Carried,
    /// Without helpers nobody would take what is announced.
    helped: bool,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    /// What to list, the folder that is needed first on top. Some may be claimed already.
    stack: Vec<Arc<Node>>,
    /// Weight of what is ready and not yet taken.
    ahead: usize,
    finished: bool,
}

impl<'a> Pool<'a> {
    pub(super) fn new(roots: &'a Roots, filter: &'a Filter, carried: Carried, helped: bool) -> Self {
        Self { roots, filter, carried, helped, state: Mutex::default(), wake: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn announce(&self, nodes: &[Arc<Node>]) {
        if self.helped && !nodes.is_empty() {
            let mut state = self.state();
            // The walk goes on by itself while helpers are far enough ahead, and what it has passed is on top.
            while state.stack.pop_if(|node| node.is_claimed()).is_some() {}
            state.stack.extend_from_slice(nodes);
            drop(state);
            self.wake.notify_all();
        }
    }

    /// Lists ahead until the walk is finished.
    pub(super) fn help(&self) {
        let mut state = self.state();
        loop {
            if state.finished {
                return;
            }
            if state.ahead < MOST_AHEAD
                && let Some(node) = state.stack.pop()
            {
                drop(state);
                if let Some(work) = node.claim() {
                    let output = work.run(self.roots, self.filter, &self.carried);
                    self.announce(&output.children);
                    self.state().ahead += output.weight();
                    node.finish(output);
                }
                state = self.state();
            } else {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// What is in `node`, by this thread's own work if no helper has begun it.
    pub(super) fn take(&self, node: &Node) -> Output {
        if let Some(work) = node.claim() {
            let output = work.run(self.roots, self.filter, &self.carried);
            self.announce(&output.children);
            return output;
        }
        let output = node.wait();
        let mut state = self.state();
        let was_full = state.ahead >= MOST_AHEAD;
        state.ahead = state.ahead.saturating_sub(output.weight());
        if was_full && state.ahead < MOST_AHEAD {
            self.wake.notify_all();
        }
        output
    }

    pub(super) fn finish(&self) {
        self.state().finished = true;
        self.wake.notify_all();
    }
}
