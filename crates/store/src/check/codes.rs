//! What can be found, and what to do about it.

macro_rules! codes {
    ($($name:ident $word:literal $invariant:literal $advice:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code {
            $($name,)*
        }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            pub fn word(self) -> &'static str {
                match self { $(Code::$name => $word,)* }
            }

            /// The promise it breaks, by its number.
            pub fn invariant(self) -> &'static str {
                match self { $(Code::$name => $invariant,)* }
            }

            pub fn advice(self) -> &'static str {
                match self { $(Code::$name => $advice,)* }
            }
        }
    };
}

const DISK: &str = "The file or the disk under it is damaged. Stop the server, keep a copy of the data directory, test the disk, and restore the last good backup.";
const REPORT: &str = "This is a defect in Semel or a change made by hand. Stop the server, keep a copy of the data directory, and report it with this line.";
const LOOK: &str = "Look at the run with `semel run show RUN --journal`. If it should have gone on, restart the server, which looks at every active run; if it stays so, cancel or restart the run, and report it with this line.";
const LEDGER: &str = "An effect may have happened twice. Ask the far side by the effect's key (`semel run show RUN --journal`), and report it with this line.";
const KEY: &str = "Ask what became of the key with `semel key explain`. If two runs did one event's work, undo one of them at the far side. Report it with this line.";
const FREE: &str =
    "Cancel or restart the run that blocks the lane; a run that ends frees its slot. Report it with this line.";

codes! {
    StoreDamaged "store_damaged" "R13" DISK;
    OrphanRow "orphan_row" "R10" REPORT;
    FlowMissing "flow_missing" "R10" "The flow revision that the run executes is gone or does not parse, so the run cannot go on. Restore it from a backup.";

    JournalGap "journal_gap" "R10" DISK;
    JournalDamaged "journal_damaged" "R13" DISK;
    JournalAfterEnd "journal_after_end" "R5" REPORT;
    HeadDiffers "head_differs" "R10" REPORT;
    SnapshotDiffers "snapshot_differs" "R10" DISK;
    ValuesDiffer "values_differ" "R10" DISK;
    LabelsDiffer "labels_differ" "R10" REPORT;
    RunStuck "run_stuck" "R11" LOOK;
    InboxUnread "inbox_unread" "R11" LOOK;
    TimerMissing "timer_missing" "R8" LOOK;
    TimerStray "timer_stray" "R8" REPORT;
    ErrandMissing "errand_missing" "R11" LOOK;
    ErrandStray "errand_stray" "R6" REPORT;

    EffectDiffers "effect_differs" "I7" REPORT;
    EffectWithoutIntent "effect_without_intent" "R6" LEDGER;
    EffectDoneTwice "effect_done_twice" "I7" LEDGER;
    EffectKeyChanged "effect_key_changed" "I7" LEDGER;
    EffectRepeated "effect_repeated" "I9" LEDGER;

    DecisionDiffers "decision_differs" "I6" KEY;
    DecisionGeneration "decision_generation" "I13" KEY;
    RunUnadmitted "run_unadmitted" "I2" KEY;
    RunAdmittedTwice "run_admitted_twice" "I2" KEY;
    KeyStartedTwice "key_started_twice" "R1" KEY;
    ClaimDiffers "claim_differs" "R1" KEY;
    ClaimRunMissing "claim_run_missing" "R1" KEY;
    ClaimState "claim_state" "I14" KEY;
    ClaimMissing "claim_missing" "I14" KEY;
    ClaimHash "claim_hash" "I16" DISK;

    LaneHolder "lane_holder" "I18" FREE;
    LaneLimit "lane_limit" "I18" FREE;
    LaneLine "lane_line" "I18" FREE;
    LaneLost "lane_lost" "I18" LOOK;

    ParentMissing "parent_missing" "R11" LOOK;
    ChildMissing "child_missing" "R11" LOOK;
    ChildUntold "child_untold" "R11" LOOK;
    DoubtUntold "doubt_untold" "I15" LOOK;

    ErasedResidue "erased_residue" "I21" "Erase the run again with `semel run erase RUN`, then check again. Report it with this line.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_every_code_has_advice() {
        let mut words: Vec<&str> = Code::ALL.iter().map(|code| code.word()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(code.advice().ends_with('.') && code.invariant().starts_with(['R', 'I']), "{code:?}");
        }
    }
}
