//! Programs side by side: what is measured ([`Plan`]), measuring it ([`compare`]), and what came of it ([`Results`]).

mod attempt;
mod error;
mod measure;
mod plan;
mod results;
mod run;
mod scratch;
pub mod statistics;

pub use error::CompareError;
pub use measure::{News, compare};
pub use plan::{NamedPath, Plan, Step, order};
pub use results::{
    Cell, CellSummary, Cost, Outcome, PathRecord, PeerRecord, PhaseRecord, Results, Run, WorkRecord,
};
pub use scratch::Scratch;
