//! Fuel and sizes: what keeps every evaluation bounded.

use crate::EvalError;
use crate::value::Value;

/// Containers built here nest at most this deep, because dropping them recurses.
pub(crate) const VALUE_DEPTH_MAX: usize = 100;
/// A container built here weighs at most this, however often it holds the same part.
const VALUE_WEIGHT_MAX: usize = 8 << 20;
/// Bytes of built value that one unit of fuel pays for.
pub(crate) const BYTES_PER_FUEL: usize = 128;

/// What an evaluation may still spend. Shared by all templates of one step, so the sum is bounded too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Evaluation steps left.
    pub fuel: u64,
    /// Bytes of printed text left; also the longest single text an operator may build.
    pub output_bytes: usize,
    /// Nesting of author text (`vars` that refer to `vars`) left.
    pub depth: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { fuel: 100_000, output_bytes: 1 << 20, depth: 64 }
    }
}

pub(crate) fn spend(budget: &mut Budget, steps: u64) -> Result<(), EvalError> {
    match budget.fuel.checked_sub(steps) {
        Some(left) => {
            budget.fuel = left;
            Ok(())
        }
        None => {
            budget.fuel = 0;
            Err(EvalError::new("fuel", "the expression takes too many steps"))
        }
    }
}

/// Pays for a value that was built, and refuses one that is too large or too deep.
pub(crate) fn built(value: Value, budget: &mut Budget) -> Result<Value, EvalError> {
    let weight = value.weight();
    spend(budget, (weight / BYTES_PER_FUEL) as u64)?;
    let container = matches!(value, Value::List(_) | Value::Map(_) | Value::HeaderMap(_));
    if container && value.depth() > VALUE_DEPTH_MAX {
        return Err(EvalError::new("depth", format!("values may nest at most {VALUE_DEPTH_MAX} deep")));
    }
    if weight > if container { VALUE_WEIGHT_MAX } else { budget.output_bytes } {
        return Err(too_large());
    }
    Ok(value)
}

pub(crate) fn too_large() -> EvalError {
    EvalError::new("output_limit", "the expression builds a value that is too large")
}
