//! How much may go to an address that nobody has proven to be the other end's.

/// Bytes that may still go to an address. Whoever sends from there is known, and whether they are there is not: nobody is flooded by one
/// who gives somebody else's, nor by a packet that was caught and sent again from elsewhere. (RFC 9000, section 8.1, has the same bound.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance(Option<u64>);

/// Bytes that may go to an address, for each that came from it.
const AMPLIFICATION: u64 = 3;

impl Allowance {
    /// The address is proven, or was chosen at this end.
    pub(crate) const ANY: Self = Self(None);

    /// A packet of so many bytes came from there.
    pub(crate) fn handle_heard(&mut self, len: u64) {
        if let Some(left) = &mut self.0 {
            *left = left.saturating_add(AMPLIFICATION.saturating_mul(len));
        }
    }

    /// So many bytes went there.
    pub(crate) fn handle_sent(&mut self, len: u64) {
        if let Some(left) = &mut self.0 {
            *left = left.saturating_sub(len);
        }
    }

    /// Bytes that may go there now.
    pub(crate) fn left(self) -> u64 {
        self.0.unwrap_or(u64::MAX)
    }
}

impl Default for Allowance {
    /// Nothing has come from there.
    fn default() -> Self {
        Self(Some(0))
    }
}
