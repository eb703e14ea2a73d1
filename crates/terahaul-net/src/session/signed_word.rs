//! A server's last word on a transfer.

use terahaul_wire::Message;

/// What a server says of a transfer at its end, and its signature over that. A depot says a
/// [`Statement`](terahaul_core::Statement), as JSON; the far side of a copy signs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedWord {
    /// What it says.
    pub said: Vec<u8>,
    /// The signature, hexadecimal.
    pub signature: String,
}

impl From<SignedWord> for Message {
    fn from(SignedWord { said, signature }: SignedWord) -> Self {
        Self::Statement(said, signature)
    }
}
