//! One-time codes that sign the owner in on the page.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use subtle::ConstantTimeEq;

use crate::DepotError;
use crate::keys::random_secret;

/// Codes that were issued and not used. They live in memory: a restart issues new ones.
#[derive(Default)]
pub(crate) struct SignInCodes(Mutex<VecDeque<Code>>);

struct Code {
    text: String,
    /// Somebody is signing in with it.
    in_use: bool,
}

/// A code that somebody signs in with: nobody else can meanwhile. Unless it is [used up](Self::use_up), it works again once this is
/// dropped, as the request is whose client goes away before it has its session.
pub(crate) struct CodeInUse<'a> {
    codes: &'a SignInCodes,
    text: String,
}

impl SignInCodes {
    /// Most codes that wait to be used; the oldest goes first.
    const KEPT: usize = 16;

    pub fn issue(&self) -> Result<String, DepotError> {
        let text = random_secret("")?;
        let mut codes = self.codes();
        if codes.len() == Self::KEPT {
            codes.pop_front();
        }
        codes.push_back(Code { text: text.clone(), in_use: false });
        Ok(text)
    }

    /// None of them works any more, nor will one that is in use.
    pub fn clear(&self) {
        self.codes().clear();
    }

    /// Takes a code to sign in with; `None` when it is wrong, used up or in use.
    pub fn redeem(&self, text: &str) -> Option<CodeInUse<'_>> {
        let mut codes = self.codes();
        let code = codes.iter_mut().find(|code| code.is(text)).filter(|code| !code.in_use)?;
        code.in_use = true;
        Some(CodeInUse { codes: self, text: code.text.clone() })
    }

    fn codes(&self) -> MutexGuard<'_, VecDeque<Code>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Code {
    fn is(&self, text: &str) -> bool {
        self.text.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

impl CodeInUse<'_> {
    /// It will not work again.
    pub fn use_up(self) {
        self.codes.codes().retain(|code| !code.is(&self.text));
    }
}

impl Drop for CodeInUse<'_> {
    fn drop(&mut self) {
        if let Some(code) = self.codes.codes().iter_mut().find(|code| code.is(&self.text)) {
            code.in_use = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once() {
        let codes = SignInCodes::default();
        let code = codes.issue().unwrap();
        assert!(codes.redeem("wrong").is_none());
        let in_use = codes.redeem(&code).unwrap();
        assert!(codes.redeem(&code).is_none());
        in_use.use_up();
        assert!(codes.redeem(&code).is_none());
    }

    #[test]
    fn a_code_that_came_to_nothing_works_again_unless_all_were_taken_back() {
        let codes = SignInCodes::default();
        let code = codes.issue().unwrap();
        drop(codes.redeem(&code));
        let in_use = codes.redeem(&code).unwrap();
        codes.clear();
        drop(in_use);
        assert!(codes.redeem(&code).is_none());
    }

    #[test]
    fn issuing_many_does_not_grow() {
        let codes = SignInCodes::default();
        let first = codes.issue().unwrap();
        for _ in 0..SignInCodes::KEPT {
            codes.issue().unwrap();
        }
        assert!(codes.redeem(&first).is_none());
    }
}
