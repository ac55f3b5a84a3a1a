//! Scripts.
use crate::tx::{Result, Tx};
use crate::work::*;
use crate::rows::DecisionRow;
/// Carries out one write.
pub fn apply(_tx: &mut dyn Tx, _work: &Work) -> Result<Done> { Ok(Done::Unit) }
/// Decides on a committed snapshot.
pub fn peek(_tx: &mut dyn Tx, _request: &AdmitRequest) -> Result<Option<(AdmitResult, DecisionRow)>> { Ok(None) }
