//! Counting content as it moves: on a slow line a block takes seconds, and who watches is not to take those for a stop.

/// Hears how many bytes of content have gone out or come in since it heard last. Called with an exchange locked: it waits for nothing.
pub(crate) type OnContent = Box<dyn Fn(u64) + Send + Sync>;

/// What an end has told of its content.
pub(super) struct Counter {
    told: u64,
    on_content: OnContent,
}

impl Counter {
    /// Nothing has moved.
    pub fn new(on_content: OnContent) -> Self {
        Self { told: 0, on_content }
    }

    /// So much has moved in all, which is never less than before.
    pub fn handle_total(&mut self, content: u64) {
        if content > self.told {
            (self.on_content)(content - self.told);
            self.told = content;
        }
    }
}
