//! Rules in order, of which the first that matches decides, as in rsync's `--include` and `--exclude`.

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};
use terahaul_core::PrintableText;

use super::lines::LineEnd;
use super::pattern::{Expression, PatternError, translate};

/// Most rules.
const MOST: usize = 10_000;
/// Most bytes that the compiled rules may take, so that a list from elsewhere cannot take the memory.
const LARGEST: usize = 64 << 20;

/// What becomes of what a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sense {
    /// It is copied.
    Include,
    /// It is left out.
    Exclude,
}

/// One rule: what its pattern matches is included, or excluded. Patterns are rsync's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// What becomes of what matches.
    pub sense: Sense,
    /// What matches.
    pub pattern: Box<[u8]>,
}

/// Rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A pattern cannot be read.
    #[error("'{pattern}' is not a pattern: {source}")]
    Pattern {
        /// The pattern, printable.
        pattern: String,
        /// What is wrong.
        source: PatternError,
    },
    /// More than 10,000.
    #[error(
        "there are more than 10000 rules: write fewer with wider patterns, or list files with --files-from"
    )]
    TooMany,
    /// Together they are too much.
    #[error("the rules are too much together: write fewer, or shorter patterns")]
    TooLarge,
}

/// Compiled twice, since some patterns are for folders only.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    folders: Option<Set>,
    others: Option<Set>,
}

#[derive(Clone, Debug)]
struct Set {
    regex: Regex,
    /// For each expression.
    senses: Vec<Sense>,
}

impl Rule {
    /// A rule as typed: `+ PATTERN` and `- PATTERN` say what they are themselves; otherwise `sense` does. `None` for
    /// `!`, which forgets all rules before it.
    pub fn parse(text: &[u8], sense: Sense) -> Option<Self> {
        let (sense, pattern) = match text {
            b"!" => return None,
            [b'+', b' ', pattern @ ..] => (Sense::Include, pattern),
            [b'-', b' ', pattern @ ..] => (Sense::Exclude, pattern),
            pattern => (sense, pattern),
        };
        Some(Self { sense, pattern: pattern.into() })
    }

    /// Adds a rule as typed to `rules`. One without a word is none, as to rsync: a script's variable may be empty.
    pub fn add(rules: &mut Vec<Self>, text: &[u8], sense: Sense) {
        if text.is_empty() {
            return;
        }
        match Self::parse(text, sense) {
            Some(rule) => rules.push(rule),
            None => rules.clear(),
        }
    }
}

/// Reads a file of rules, one a line, into `rules`; those that do not say what they are themselves are of this `sense`.
pub fn read_rules(rules: &mut Vec<Rule>, content: &[u8], sense: Sense, end: LineEnd) {
    end.lines(content).for_each(|line| Rule::add(rules, line, sense));
}

impl Rules {
    pub(super) fn new(rules: &[Rule]) -> Result<Self, RuleError> {
        if rules.len() > MOST {
            return Err(RuleError::TooMany);
        }
        let mut all = Vec::new();
        for Rule { sense, pattern } in rules {
            let failed = |source| RuleError::Pattern { pattern: PrintableText(pattern).to_string(), source };
            all.extend(
                translate(pattern).map_err(failed)?.into_iter().map(|expression| (expression, *sense)),
            );
        }
        let others = all.iter().filter(|(expression, _)| !expression.folders_only);
        Ok(Self { others: Set::new(others)?, folders: Set::new(all.iter())? })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.folders.is_none()
    }

    pub(super) fn excludes(&self, path: &[u8], is_folder: bool) -> bool {
        let set = if is_folder { &self.folders } else { &self.others };
        set.as_ref().is_some_and(|set| set.first_match(path) == Some(Sense::Exclude))
    }
}

impl Set {
    fn new<'a>(all: impl Iterator<Item = &'a (Expression, Sense)>) -> Result<Option<Self>, RuleError> {
        let (expressions, senses): (Vec<_>, Vec<_>) =
            all.map(|(expression, sense)| (expression.regex.as_str(), *sense)).unzip();
        if expressions.is_empty() {
            return Ok(None);
        }
        let bytes = syntax::Config::new().utf8(false);
        let config = Regex::config().utf8_empty(false).nfa_size_limit(Some(LARGEST));
        let regex = Regex::builder().configure(config).syntax(bytes).build_many(&expressions);
        Ok(Some(Self { regex: regex.map_err(|_| RuleError::TooLarge)?, senses }))
    }

    /// What the first rule that matches says. The expressions are tried as alternatives of one, of which the first is
    /// preferred.
    fn first_match(&self, path: &[u8]) -> Option<Sense> {
        let mut text = Vec::with_capacity(path.len() + 1);
        text.push(b'/');
        text.extend_from_slice(path);
        let found = self.regex.find(Input::new(&text).anchored(Anchored::Yes))?;
        self.senses.get(found.pattern().as_usize()).copied()
    }
}
