//! Flow files as the commands read them.

use crate::failure::Failure;
use semel_core::limits::Limits;
use semel_flow::{Compiled, Diagnostic};
use std::io::Read;
use std::path::Path;

pub struct Source {
    /// How diagnostics name it.
    pub name: String,
    pub text: String,
}

/// Reads a file, or stdin for `-`. Reading stops past the largest flow there can be.
pub fn read(path: &Path) -> Result<Source, Failure> {
    let limit = Limits::default().flow_bytes_max as u64 + 1;
    let (name, bytes) = if path == Path::new("-") {
        ("<stdin>".to_owned(), take(std::io::stdin().lock(), limit))
    } else {
        (path.display().to_string(), std::fs::File::open(path).and_then(|file| take(file, limit)))
    };
    let bytes = bytes.map_err(|error| Failure::usage(format!("cannot read {name}: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        Failure::refused("flow_invalid", format!("{name}: line {line} is not UTF-8")).hint("save the file as UTF-8")
    })?;
    Ok(Source { name, text })
}

fn take(reader: impl Read, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub fn compile(source: &Source) -> Result<Compiled, Vec<Diagnostic>> {
    semel_flow::compile(&source.text, &semel_tasks::REGISTRY, &Limits::default())
}
