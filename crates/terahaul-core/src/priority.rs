//! How a transfer shares its path with others.

/// What it takes beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// As much as another.
    #[default]
    Fair,
    /// What the others leave.
    Background,
    /// As much as it can; with a rate that the user gave, that rate, whatever the path says.
    Full,
}

impl Priority {
    /// As the protocol has it.
    pub fn number(self) -> u8 {
        match self {
            Self::Fair => 0,
            Self::Background => 1,
            Self::Full => 2,
        }
    }

    /// What a number of the protocol stands for; fair, where it is not known here.
    pub fn numbered(number: u8) -> Self {
        match number {
            1 => Self::Background,
            2 => Self::Full,
            _ => Self::Fair,
        }
    }
}
