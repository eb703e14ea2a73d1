//! One-time codes that sign the owner in on the page.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use subtle::ConstantTimeEq;

use crate::DepotError;
use crate::keys::random_secret;

/// Codes that were issued and not used. They live in memory: a restart issues new ones.
#[derive(Default)]
pub(crate) struct SignInCodes(Mutex<VecDeque<String>>);

impl SignInCodes {
    /// Most codes that wait to be used; the oldest goes first.
    const KEPT: usize = 16;

    pub fn issue(&self) -> Result<String, DepotError> {
        let code = random_secret("")?;
        self.keep(code.clone());
        Ok(code)
    }

    /// Takes back one that was redeemed, as what it was used for has failed.
    pub fn keep(&self, code: String) {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if codes.len() == Self::KEPT {
            codes.pop_front();
        }
        codes.push_back(code);
    }

    /// None of them works any more.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Uses a code up; `false` when it is wrong or used.
    pub fn redeem(&self, code: &str) -> bool {
        let mut codes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = codes.len();
        codes.retain(|known| !bool::from(known.as_bytes().ct_eq(code.as_bytes())));
        codes.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once() {
        let codes = SignInCodes::default();
        let code = codes.issue().unwrap();
        assert!(!codes.redeem("wrong"));
        assert!(codes.redeem(&code));
        assert!(!codes.redeem(&code));
    }

    #[test]
    fn issuing_many_does_not_grow() {
        let codes = SignInCodes::default();
        let first = codes.issue().unwrap();
        for _ in 0..SignInCodes::KEPT {
            codes.issue().unwrap();
        }
        assert!(!codes.redeem(&first));
    }
}
