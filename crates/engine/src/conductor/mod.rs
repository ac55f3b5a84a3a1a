//! Runs of Conductor's workflows: what their expressions see, and what its own tasks compute.
//!
//! | module | what it holds |
//! |---|---|
//! | `notes` | what a run knows about its tasks, by reference name, folded from the journal |
//! | `roots` | `workflow`, and one root for each reference name |
//! | `leaves` | tasks that only compute: joins, picks, jq, variables |
//! | `errands` | tasks that someone outside carries out |
//! | `fork` | the tasks of a dynamic fork |
//! | `loops` | what a DO_WHILE does after a round |
//! | `starts` | which workflow a task starts, and under which key |
//! | `story` | a run as its door shows it |

mod errands;
mod fork;
mod leaves;
mod loops;
mod notes;
mod roots;
mod starts;
mod story;

pub use loops::exit_state;
pub use notes::Notes;
pub use starts::sub_workflow_output;
pub use story::{TaskStory, WorkflowStory};
