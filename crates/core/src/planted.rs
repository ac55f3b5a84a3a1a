//! Bugs planted on purpose, one line each, so that the proof can be proved: the simulator must
//! find every one of them. Only builds that name the feature `planted` have them, and there none
//! is on until a test switches it on; in every other build [`planted!`] is `false`.

/// True where a planted bug is switched on.
#[cfg(feature = "planted")]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::is_on($crate::planted::Bug::$bug)
    };
}

/// True where a planted bug is switched on.
#[cfg(not(feature = "planted"))]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}

#[cfg(feature = "planted")]
pub use switch::*;

#[cfg(feature = "planted")]
mod switch {
    use std::sync::atomic::{AtomicU32, Ordering};

    macro_rules! bugs {
        ($($(#[doc = $text:literal])+ $name:ident by $($id:literal)*;)*) => {
            /// The bugs, and the promises one of which must be found broken.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum Bug { $($(#[doc = $text])+ $name),* }

            impl Bug {
                pub const ALL: &'static [Bug] = &[$(Bug::$name),*];
                pub fn breaks(self) -> &'static [&'static str] { match self { $(Bug::$name => &[$($id),*]),* } }
            }
        };
    }

    bugs! {
        /// A person is told that a wish is granted before it is durable.
        AnsweredBeforeDurable by "R2";
        /// Keys that differ in case are one key.
        KeyFoldedCase by "R1" "R4" "I6";
        /// The payload of a twin is not compared.
        PayloadNotCompared by "R4" "I6";
        /// A twin is answered with another run than its event's.
        TwinNamesAnotherRun by "R1" "R2";
        /// A write whose guard failed is written again on top of what is there.
        GuardFailedWrittenAgain by "R1" "R5" "R7" "R8" "R10" "I18";
        /// The outbound key says how often it was sent.
        EffectKeyCountsSends by "R7";
        /// The items of a loop share one outbound key.
        EffectKeyWithoutLoop by "R7";
        /// The sweep takes claims while their senders may still retry.
        ClaimsSweptEarly by "R1" "I6" "I13" "I14";
        /// A commit removes messages that it did not act on.
        MessagesRemovedUnread by "R11" "I18";
        /// After a crash a naked effect is sent again.
        NakedRepeated by "R7";
        /// The request leaves before its intent is durable.
        SentBeforeIntent by "R6";
        /// A run's commit is not compared with its head.
        CommitWithoutGuard by "R5" "R7" "R8" "R10" "I13" "I18";
        /// What replaces a run leaves its sub-runs alone.
        ReplacedWithoutChildren by "I12" "R5" "R11";
        /// After a restart a sleeping step gets a second timer.
        SecondTimer by "R5" "R8";
        /// The store's clock follows the machine's backwards.
        ClockGoesBack by "R8" "R9" "I6" "I14";
        /// A run that ended with a doubt counts as finished.
        DoubtCountsAsEnd by "R9" "I15" "I6" "R1";
        /// A run follows the newest text of its flow.
        RunFollowsNewestFlow by "R3" "R10";
        /// A restore holds nothing.
        RestoreHoldsNothing by "I15";
        /// A restored run acts on what comes before it is released.
        HeldRunGoesOn by "R5" "R7";
        /// A value that does not match its digest is believed.
        DamageBelieved by "R13";
        /// A quiet period has no longest time.
        QuietWithoutEnd by "I18";
        /// What a worker says of an attempt that was given up counts for the one that is out.
        AttemptNotCompared by "R2" "R3" "R5";
        /// Whoever put a task back may put it back again while somebody else has it.
        PutBackTwice by "I18";
        /// A task that was handed out stays in its queue.
        HandedOutTwice by "I18";
        /// A run is done again beside another one of its key.
        ReopenedBesideAnother by "R1";
        /// A run that is done again leaves its key with another one, which has ended.
        KeyLeftWithAnother by "R1" "I6" "I13";
    }

    static ON: AtomicU32 = AtomicU32::new(0);

    /// Switches one bug on, and every other off.
    pub fn plant(bug: Option<Bug>) {
        ON.store(bug.map_or(0, |bug| bug as u32 + 1), Ordering::SeqCst);
    }

    pub fn is_on(bug: Bug) -> bool {
        ON.load(Ordering::SeqCst) == bug as u32 + 1
    }
}
