//! A transfer as one ZIP file.

/// Where everything is in a transfer's ZIP file.
pub(crate) struct Plan {}
