//! Results as people read them: tables in Markdown, and one HTML page with plots that needs nothing else.

mod heat;
mod html;
mod markdown;
mod plot;
mod text;

pub use html::html;
pub use markdown::markdown;

#[cfg(test)]
mod tests;
