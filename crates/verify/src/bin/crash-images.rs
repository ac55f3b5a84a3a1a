//! Power cuts, as many as asked for: `crash-images [IMAGES] [FIRST_SCRIPT]`. Ends with 1 if one of them lost something.

use semel_verify::disk::cuts;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let (Ok(images), Ok(first)) = (numbers.next().unwrap_or(Ok(5_000)), numbers.next().unwrap_or(Ok(1))) else {
        eprintln!("crash-images [IMAGES] [FIRST_SCRIPT]");
        return ExitCode::from(2);
    };
    let tally = cuts::run(images, first, &[]);
    for example in &tally.examples {
        println!("VIOLATION {example}");
    }
    println!("SUMMARY crash_images first={first} {tally}");
    if tally.bad() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
