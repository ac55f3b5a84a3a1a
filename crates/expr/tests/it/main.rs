//! One binary for all tests of the crate.

mod bounds;
mod conductor;
mod jq;
mod kestra;
mod language;
mod library;
mod scope;
mod storage;
mod taint;
