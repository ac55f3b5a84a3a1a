//! Deaths of the process, of the disk and of the machine: what was answered is still there afterwards.
//!
//! | file | what dies |
//! |---|---|
//! | `kill_loop` | the process, under load, at random moments and at failpoints |
//! | `end_check` | the check of the loop: it finds every kind of violation |

mod end_check;
mod kill_loop;
