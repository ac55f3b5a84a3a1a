//! Deaths of the process, of the disk and of the machine: what was answered is still there afterwards.
//!
//! | file | what dies |
//! |---|---|
//! | `kill_loop` | the process, under load, at random moments and at failpoints |
//! | `end_check` | the check of the loop: it finds every kind of violation |
//! | `images` | the machine: what may be on its disk after a power cut, opened with the real store |
//! | `io_errors` | the disk: the n-th call fails, for every n |

mod end_check;
mod images;
mod io_errors;
mod kill_loop;

/// A size that may be asked for from outside.
fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")),
        Err(_) => default,
    }
}
