//! `NAME=VALUE`, in any order.

/// What was given.
pub struct Arguments(Vec<(String, String)>);

impl Arguments {
    /// Only these names are known.
    pub fn parse(words: &[String], known: &[&str]) -> Result<Self, String> {
        let pair = |word: &String| match word.split_once('=') {
            Some((name, value)) if known.contains(&name) => Ok((name.to_owned(), value.to_owned())),
            _ => Err(format!("{word}: give {}", known.join("=, ") + "=")),
        };
        words.iter().map(pair).collect::<Result<_, _>>().map(Self)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A part of titles; nothing is part of all.
    pub fn of(&self) -> &str {
        self.value("of").unwrap_or_default()
    }

    /// A number from 1.
    pub fn number(&self, name: &str, usual: u64) -> Result<u64, String> {
        let Some(value) = self.value(name) else { return Ok(usual) };
        let number = value.parse().ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!("{name}={value}: give a number from 1"))
    }
}
