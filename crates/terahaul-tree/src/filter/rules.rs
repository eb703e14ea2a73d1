//! Rules in order, of which the first that matches decides, as in rsync's `--include` and `--exclude`.

use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use super::pattern::{Expression, PatternError, translate};

/// Most rules.
const MOST: usize = 10_000;
/// Most bytes that the compiled rules may take, so that a list from elsewhere cannot take the memory.
const LARGEST: usize = 64 << 20;

/// One rule: what its pattern matches is included, or excluded. Patterns are rsync's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Include what matches; otherwise exclude it.
    pub include: bool,
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
    /// For each expression, whether it includes.
    include: Vec<bool>,
}

impl Rule {
    /// A rule as typed: `+ PATTERN` and `- PATTERN` say what they are themselves; otherwise `include` does. `None` for
    /// `!`, which forgets all rules before it.
    pub fn parse(text: &[u8], include: bool) -> Option<Self> {
        let (include, pattern) = match text {
            b"!" => return None,
            [b'+', b' ', pattern @ ..] => (true, pattern),
            [b'-', b' ', pattern @ ..] => (false, pattern),
            pattern => (include, pattern),
        };
        Some(Self { include, pattern: pattern.into() })
    }

    /// Adds a rule as typed to `rules`.
    pub fn add(rules: &mut Vec<Self>, text: &[u8], include: bool) {
        match Self::parse(text, include) {
            Some(rule) => rules.push(rule),
            None => rules.clear(),
        }
    }
}

/// Reads a file of rules, one a line, into `rules`. Empty lines and those that begin with `#` or `;` are passed over.
/// With `nul`, rules end with a NUL byte, and none is passed over.
pub fn read_rules(rules: &mut Vec<Rule>, content: &[u8], include: bool, nul: bool) {
    let end = if nul { 0 } else { b'\n' };
    for line in content.split(|byte| *byte == end) {
        let line = if nul { line } else { line.strip_suffix(b"\r").unwrap_or(line) };
        let is_comment = !nul && matches!(line.first(), Some(b'#' | b';'));
        if !line.is_empty() && !is_comment {
            Rule::add(rules, line, include);
        }
    }
}

impl Rules {
    pub(super) fn new(rules: &[Rule]) -> Result<Self, RuleError> {
        if rules.len() > MOST {
            return Err(RuleError::TooMany);
        }
        let mut all = Vec::new();
        for Rule { include, pattern } in rules {
            let failed = |source| RuleError::Pattern { pattern: crate::beneath::printable(pattern), source };
            all.extend(
                translate(pattern).map_err(failed)?.into_iter().map(|expression| (expression, *include)),
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
        set.as_ref().is_some_and(|set| set.first_match(path) == Some(false))
    }
}

impl Set {
    fn new<'a>(all: impl Iterator<Item = &'a (Expression, bool)>) -> Result<Option<Self>, RuleError> {
        let (expressions, include): (Vec<_>, Vec<_>) =
            all.map(|(expression, include)| (expression.regex.as_str(), *include)).unzip();
        if expressions.is_empty() {
            return Ok(None);
        }
        let bytes = syntax::Config::new().utf8(false);
        let config = Regex::config().utf8_empty(false).nfa_size_limit(Some(LARGEST));
        let regex = Regex::builder().configure(config).syntax(bytes).build_many(&expressions);
        Ok(Some(Self { regex: regex.map_err(|_| RuleError::TooLarge)?, include }))
    }

    /// What the first rule that matches says. The expressions are tried as alternatives of one, of which the first is
    /// preferred.
    fn first_match(&self, path: &[u8]) -> Option<bool> {
        let mut text = Vec::with_capacity(path.len() + 1);
        text.push(b'/');
        text.extend_from_slice(path);
        let found = self.regex.find(Input::new(&text).anchored(Anchored::Yes))?;
        self.include.get(found.pattern().as_usize()).copied()
    }
}
