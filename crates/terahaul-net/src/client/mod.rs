//! Client sessions.
