//! The shared suite.

use crate::support::make;
use semel_store::conformance;

macro_rules! tests {
    ($($module:ident::$case:ident,)*) => {
        $(#[test]
        fn $case() {
            conformance::run(stringify!($case), &make);
        })*
    };
}

semel_store::conformance_cases!(tests);
