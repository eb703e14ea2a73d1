//! Values of which some are words, for shells to offer.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};

/// Reads a value as `read` does, which says itself what it takes besides these words.
#[derive(Clone)]
pub struct Words<R> {
    words: fn() -> Vec<&'static str>,
    read: R,
}

impl<R> Words<R> {
    /// They are asked for when a shell's script is written, or something is mistyped.
    pub fn new(words: fn() -> Vec<&'static str>, read: R) -> Self {
        Self { words, read }
    }
}

impl<R: TypedValueParser> TypedValueParser for Words<R> {
    type Value = R::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<R::Value, clap::Error> {
        self.read.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.words)().into_iter().map(PossibleValue::new)))
    }
}
