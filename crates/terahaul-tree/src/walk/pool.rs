//! Helpers that list folders ahead of the walk.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::look::Walker;
use super::node::{Node, Output};

/// Entries that helpers may hold ready, which bounds the walk's memory.
const MOST_AHEAD: usize = 32 * 1024;

pub(super) struct Pool<'a> {
    walker: Walker<'a>,
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
    /// Helpers that have nothing to do.
    idle: usize,
    finished: bool,
}

impl State {
    /// A folder to list ahead, unless enough is.
    fn next(&mut self) -> Option<Arc<Node>> {
        if self.ahead < MOST_AHEAD { self.stack.pop() } else { None }
    }
}

impl<'a> Pool<'a> {
    pub(super) fn new(walker: Walker<'a>, helped: bool) -> Self {
        Self { walker, helped, state: Mutex::default(), wake: Condvar::new() }
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
            if state.ahead < MOST_AHEAD {
                self.wake_some(&state, nodes.len());
            }
        }
    }

    /// Wakes helpers for so many folders. To wake nobody would cost a system call as well.
    fn wake_some(&self, state: &State, folders: usize) {
        match state.idle.min(folders) {
            0 => {}
            1 => self.wake.notify_one(),
            _ => self.wake.notify_all(),
        }
    }

    /// Lists ahead until the walk is finished.
    pub(super) fn help(&self) {
        let mut state = self.state();
        while !state.finished {
            match state.next() {
                Some(node) => {
                    drop(state);
                    self.list_ahead(&node);
                    state = self.state();
                }
                None => {
                    state.idle += 1;
                    state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.idle -= 1;
                }
            }
        }
    }

    /// What is in `node`, unless somebody has begun to list it.
    fn list(&self, node: &Node) -> Option<Output> {
        let output = self.walker.look(node.claim()?);
        self.announce(&output.children);
        Some(output)
    }

    fn list_ahead(&self, node: &Node) {
        if let Some(output) = self.list(node) {
            self.state().ahead += output.weight();
            node.finish(output);
        }
    }

    /// What is in `node`, by this thread's own work if no helper has begun it. While one is at it, this thread helps, too: to sleep
    /// and be woken takes longer than most folders do.
    pub(super) fn take(&self, node: &Node) -> Output {
        if let Some(output) = self.list(node) {
            return output;
        }
        let output = loop {
            if let Some(output) = node.ready() {
                break output;
            }
            let next = self.state().next();
            match next {
                Some(next) => self.list_ahead(&next),
                None => break node.wait(),
            }
        };
        let mut state = self.state();
        let was_full = state.ahead >= MOST_AHEAD;
        state.ahead = state.ahead.saturating_sub(output.weight());
        if was_full && state.ahead < MOST_AHEAD {
            self.wake_some(&state, state.stack.len());
        }
        output
    }

    pub(super) fn finish(&self) {
        self.state().finished = true;
        self.wake.notify_all();
    }
}
