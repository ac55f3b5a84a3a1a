//! Runs of Conductor's workflows: what their expressions see, and what its own tasks compute.
//!
//! | module | what it holds |
//! |---|---|
//! | `notes` | what a run knows about its tasks, by reference name, folded from the journal |
//! | `others` | what a task says to the outside of its run: events, and word to other workflows |
//! | `roots` | `workflow`, and one root for each reference name |
//! | `leaves` | tasks that only compute: joins, picks, jq, variables |
//! | `definitions` | task definitions: what counts of one, and where it is found |
//! | `dynamic` | tasks whose type is known only when they start |
//! | `errands` | tasks that someone outside carries out |
//! | `fork` | the tasks of a dynamic fork |
//! | `loops` | what a DO_WHILE does after a round |
//! | `schemas` | what inputs and outputs are held to |
//! | `states` | what tasks tell of themselves |
//! | `starts` | which workflow a task starts, and under which key |
//! | `resources` | limits by tag, `workflow.env`, secrets that the door may show |
//! | `messages` | what is left for a workflow, and the tasks that pull it |
//! | `names` | keys that are made of what has arrived |
//! | `timetable` | schedules |
//! | `story` | a run as its door shows it |
//! | `words` | what searches over tasks find a run by |
//! | `places` | where the first tasks of a fork and its JOIN stand |

mod definitions;
mod dynamic;
mod errands;
mod fork;
mod leaves;
mod loops;
mod messages;
mod names;
mod notes;
mod others;
mod places;
mod resources;
mod roots;
mod schemas;
mod starts;
mod states;
mod story;
mod timetable;
mod words;

pub(crate) use dynamic::{DYNAMIC, performed_as};
pub use loops::exit_state;
pub(crate) use messages::{PULL, pulled};
pub use names::{arrived_name, arrived_value};
pub use notes::Notes;
pub(crate) use others::EVENT;
pub(crate) use resources::limit_by_tag;
pub use resources::{RATE_LIMIT, SecretValue};
pub(crate) use schemas::misfit;
pub(crate) use starts::strategy;
pub use starts::sub_workflow_output;
pub(crate) use states::moments;
pub use story::{TaskStory, WorkflowStory, renamed};
pub use timetable::{Timetable, check_cron, is_timetable, upcoming};
pub use words::TROUBLES;
pub(crate) use words::words_of;
