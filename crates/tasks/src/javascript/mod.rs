//! JavaScript, in processes of its own.
//!
//! A script may loop for ever, ask for all memory, or find a fault of its engine. So scripts run in a few children of
//! our own program ([`child_main`]), which know nothing and may be killed at any time. Parent and child speak lines of
//! JSON over the child's standard input and output, one answer for each question.
//!
//! | what happens | what comes of it |
//! |---|---|
//! | the script throws | its task fails with the message |
//! | it takes longer than it may | the engine interrupts it, or else the child is killed; its task fails |
//! | it asks for more memory than it may | the engine refuses, or else the child dies; its task fails |
//! | the child dies or says nonsense | its task fails, and the next script gets another child |
//! | the parent dies | the child reads the end of its input, and ends |

mod child;
mod pool;

pub use child::{child_main, serve};
pub use pool::{Javascript, JavascriptConfig};

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// One script to evaluate.
#[derive(Debug, Serialize, Deserialize)]
struct Question<'a> {
    script: std::borrow::Cow<'a, str>,
    input: std::borrow::Cow<'a, Json>,
    time_ms: u64,
    memory_bytes: usize,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// The result as JSON text: the parent need not trust it to be JSON.
    Done(String),
    Failed(String),
}
