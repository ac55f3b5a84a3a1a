//! Flows ready to run.

use semel_core::FlowRef;
use semel_core::run::FlowIndex;

/// One revision of a flow, compiled and indexed.
#[derive(Clone, Debug)]
pub struct LoadedFlow {
    pub flow_ref: FlowRef,
    pub revision: u32,
    pub index: FlowIndex,
    pub source: String,
}
