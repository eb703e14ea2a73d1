//! What a token may do.

use serde::{Deserialize, Serialize};

/// One thing a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Make transfers and fill them; see and manage those.
    Send,
    /// Read every transfer of the depot.
    Receive,
    /// Everything, tokens included.
    Own,
}

impl Scope {
    const ALL: [Self; 3] = [Self::Send, Self::Receive, Self::Own];

    /// Its name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Own => "own",
        }
    }

    fn bit(self) -> i64 {
        match self {
            Self::Send => 1,
            Self::Receive => 2,
            Self::Own => 4,
        }
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scopes(i64);

impl Scopes {
    /// Whether the set allows `scope`; `own` allows everything.
    pub fn has(self, scope: Scope) -> bool {
        self.0 & (scope.bit() | Scope::Own.bit()) != 0
    }

    /// The scopes as they were given.
    pub fn list(self) -> Vec<Scope> {
        Scope::ALL.into_iter().filter(|scope| self.0 & scope.bit() != 0).collect()
    }

    pub(crate) fn bits(self) -> i64 {
        self.0
    }

    pub(crate) fn from_bits(bits: i64) -> Self {
        Self(bits & 7)
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_allows_everything_and_the_others_only_themselves() {
        let own: Scopes = [Scope::Own].into_iter().collect();
        assert!(Scope::ALL.into_iter().all(|scope| own.has(scope)));
        let send: Scopes = [Scope::Send].into_iter().collect();
        assert!(send.has(Scope::Send) && !send.has(Scope::Receive) && !send.has(Scope::Own));
        assert_eq!(Scopes::from_bits(own.bits()).list(), [Scope::Own]);
    }
}
