//! A sink that keeps nothing.

use std::io::IoSlice;

use terahaul_core::BlockShape;

use crate::{BlockSink, BlockWriter, SinkError};

/// Takes every block and keeps none: for dry runs and for measuring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl BlockSink for Nowhere {
    fn begin<'a>(&'a self, _: &BlockShape) -> Result<Box<dyn BlockWriter + 'a>, SinkError> {
        Ok(Box::new(Self))
    }

    fn sync(&self) -> Result<(), SinkError> {
        Ok(())
    }
}

impl BlockWriter for Nowhere {
    fn write(&mut self, _: &[IoSlice<'_>]) -> Result<(), SinkError> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), SinkError> {
        Ok(())
    }
}
