//! Random programs of writes: few keys, few lanes, all policies, right and wrong guards.

use crate::*;
use semel_core::admission::*;
use semel_core::fingerprint::Fingerprint;
use semel_core::ir::EffectClass;
use semel_core::run::{By, Conclusion, EndStatus, Event, Failure, Status, StepKey, StepOutcome, encode_events};
use semel_core::{Door, FlowRef, Hash16, Millis, RunId, WorkspaceId};
use serde_json::{Value as Json, json};

/// SplitMix64: small, seeded, the same everywhere.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize].clone()
    }
}

/// Makes writes that fit the state of a store, mostly.
pub struct Program<'a> {
    pub dice: Dice,
    pub oracle: &'a dyn Store,
    pub runs: Vec<(WorkspaceId, RunId)>,
    last_id: u64,
    last_log: u64,
}

fn by() -> By {
    By { who: "someone".into(), why: "because".into() }
}

impl<'a> Program<'a> {
    pub fn new(seed: u64, oracle: &'a dyn Store) -> Program<'a> {
        Program { dice: Dice::new(seed), oracle, runs: vec![], last_id: 0, last_log: 0 }
    }

    pub fn workspace(&mut self) -> WorkspaceId {
        WorkspaceId(if self.dice.chance(85) { "main" } else { "other" }.into())
    }

    fn flow(&mut self) -> FlowRef {
        self.dice.pick(&[FlowRef::new("shop", "order"), FlowRef::new("shop", "refund"), FlowRef::new("bank", "order")])
    }

    fn run(&mut self) -> (WorkspaceId, RunId) {
        let unknown = (WorkspaceId("main".into()), RunId::from_bytes([9; 16]));
        if self.runs.is_empty() || self.dice.chance(2) {
            return unknown;
        }
        // Recent runs are more interesting: older ones have ended.
        let recent = self.runs.len().saturating_sub(12);
        let from = if self.dice.chance(70) { &self.runs[recent..] } else { &self.runs[..] };
        let (workspace, run) = from[self.dice.0 as usize % from.len()].clone();
        self.dice.roll();
        if self.dice.chance(2) { (WorkspaceId("other".into()), run) } else { (workspace, run) }
    }

    fn json(&mut self) -> Json {
        let small = json!({"n": self.dice.below(3)});
        self.dice.pick(&[
            small,
            json!(null),
            json!("text \u{e9}"),
            json!([1, 183.64207777613782, {"a": null}]),
            json!({}),
        ])
    }

    fn labels(&mut self) -> Vec<(String, String)> {
        let count = self.dice.below(3);
        (0..count)
            .map(|_| (self.dice.pick(&["team", "tier"]).into(), self.dice.pick(&["red", "blue"]).into()))
            .collect()
    }

    pub fn work(&mut self) -> Work {
        match self.dice.below(100) {
            0..=31 => Work::Admit(Box::new(self.admit())),
            32..=39 => self.admit_and_run(),
            40..=42 => self.file(),
            43..=74 => Work::Commit(Box::new(self.commit())),
            75..=77 => self.kv(),
            78..=80 => self.release(),
            81..=83 => self.of_run(|workspace, run| Work::DeleteRun { workspace, run }),
            84..=86 => self.of_run(|workspace, run| Work::EraseRun { workspace, run }),
            87..=88 => self.message(),
            89 => self.hear(),
            90..=91 => self.sweep(),
            92 if self.dice.chance(25) => self.delete_flow(),
            92 => self.put_flow(),
            93 => self.secret(),
            94 => self.token(),
            95 => Work::PutWorkspace(WorkspaceRow { id: self.workspace(), created_at: Millis(1) }),
            96 => Work::RetireSecret { workspace: self.workspace(), name: "db".into() },
            97 => Work::RevokeToken { workspace: self.workspace(), id: self.dice.pick(&["t1", "t2"]).into() },
            98 => Work::AdvanceSchedule(self.schedule("tick")),
            _ => self.log_decision(),
        }
    }

    /// An admission with anything that a run could do first, and sometimes with what no new run can.
    fn admit_and_run(&mut self) -> Work {
        let request = self.admit();
        let mut first = self.commit();
        (first.workspace, first.run) = (request.workspace.clone(), request.run);
        (first.epoch, first.version) = (1, if self.dice.chance(8) { 2 } else { 1 });
        first.effects.iter_mut().for_each(|effect| effect.run = request.run);
        first.logs.iter_mut().for_each(|log| log.run = request.run);
        // A run that is done at its door starts no other, and so cannot wait for itself by its own key.
        first.ops.retain(|op| !matches!(op.kind, OpKind::Admit(_) | OpKind::RunAgain { .. }));
        if matches!(first.settle, Settle::Reopened | Settle::ReopenedByTwin) {
            first.settle = Settle::Unchanged;
        }
        Work::AdmitAndRun(Box::new((request, first)))
    }

    fn of_run(&mut self, make: impl FnOnce(WorkspaceId, RunId) -> Work) -> Work {
        let (workspace, run) = self.run();
        make(workspace, run)
    }

    fn claim(&mut self, workspace: &WorkspaceId) -> KeyClaim {
        let key = format!("k{}", self.dice.below(6));
        let scope = self.dice.pick(&["flow:shop:order", "workspace"]);
        let source = self.dice.pick(&[KeySource::Caller, KeySource::Flow, KeySource::Intrinsic]);
        // One scope leaves the workspace out of the hash: the store's walls must hold without it.
        let hash = match scope {
            "workspace" => Hash16::of(&[scope.as_bytes(), key.as_bytes()]),
            _ => claim_hash(workspace, scope, &key),
        };
        KeyClaim { hash, key, scope: scope.into(), source }
    }

    fn release(&mut self) -> Work {
        let workspace = self.workspace();
        Work::ReleaseKey { hash: self.claim(&workspace).hash, workspace, by: by() }
    }

    fn policy(&mut self) -> Policy {
        let mut policy = self.dice.pick(PRESETS).policy;
        policy.late = self.dice.pick(&[LatePolicy::Start, LatePolicy::Warn, LatePolicy::Reject]);
        policy.mismatch = self.dice.pick(&[MismatchPolicy::Reject, MismatchPolicy::Ignore, MismatchPolicy::Split]);
        if self.dice.chance(25) {
            // Few presets resume.
            (policy.failed, policy.cancelled) = (OnEnded::Resume, OnEnded::Resume);
        }
        policy.require_key = self.dice.chance(5);
        policy.expire_live = self.dice.chance(5);
        policy
    }

    fn lane(&mut self) -> LaneRequest {
        let busy = self.dice.pick(&[
            Busy::Queue { max: 2 },
            Busy::Replace,
            Busy::Coalesce { quiet_ms: 5, max_ms: 12 },
            Busy::Deliver,
            Busy::Reject,
            Busy::Cancel,
            Busy::Fail,
            Busy::Parallel,
        ]);
        LaneRequest { hash: Hash16([self.dice.below(2) as u8; 16]), limit: 1 + self.dice.below(2) as u32, busy }
    }

    pub fn admit(&mut self) -> AdmitRequest {
        let workspace = self.workspace();
        // Chosen before the new run is known: no run is its own ancestor.
        let parent = self.run().1;
        self.last_id += 1;
        let run = RunId::from_bytes((u128::from(self.last_id) << 64).to_be_bytes());
        if self.dice.chance(99) {
            self.runs.push((workspace.clone(), run));
        }
        let inputs = self.json();
        let parent = self.dice.chance(15).then(|| ParentRef {
            run: parent,
            step: StepKey("call".into()),
            waits: self.dice.chance(70),
        });
        let key = self.dice.chance(85).then(|| self.claim(&workspace));
        let at = self.oracle.now();
        let next = self.dice.chance(80).then(|| at.plus(1 + self.dice.below(9) as i64));
        let terms = self.terms(&workspace);
        let tick =
            self.dice.chance(4).then(|| Tick { trigger: "tick".into(), at, next, backfill: false, schedule: None });
        AdmitRequest {
            workspace,
            flow: self.flow(),
            revision: 1,
            door: self.dice.pick(&Door::ALL),
            occurrence: format!("o{}", self.last_id),
            caller: "caller".into(),
            key,
            fingerprint: Fingerprint::of(&[&inputs]),
            policy: self.policy(),
            lane: self.dice.chance(50).then(|| self.lane()),
            run,
            inputs,
            trigger: self.json(),
            labels: self.labels(),
            correlation_id: self.dice.chance(30).then(|| "batch".into()),
            root: parent.as_ref().map(|p| p.run),
            depth: u32::from(parent.is_some()),
            parent,
            tick,
            hearing: if self.dice.chance(3) { self.hearing() } else { None },
            announced: self.dice.chance(20),
            terms,
        }
    }

    /// Few runs begin late, ended, or from what another one did.
    fn terms(&mut self, workspace: &WorkspaceId) -> Terms {
        let replay = self.dice.chance(6).then(|| self.run().1).and_then(|of| {
            let (row, _, labels) = self.oracle.run(workspace, of).expect("the oracle reads")?;
            let done = Event::StepEnded {
                step: StepKey("call".into()),
                outcome: StepOutcome::Success,
                at: self.oracle.now(),
                tolerated: false,
                output: Some(payload(self.json())),
                failure: None,
            };
            let (original, version) = (row.original(), row.version);
            Some(Box::new(ReplayTerms { of, original, version, from: 1, events: vec![done], labels }))
        });
        let end = self.dice.pick(&[EndStatus::Failed, EndStatus::Cancelled]);
        Terms {
            start_at: self.dice.chance(6).then(|| self.oracle.now().plus(self.dice.below(30) as i64)),
            ended: self.dice.chance(3).then(|| (end, Failure::new("check", "no"))),
            replay,
            breakpoints: if self.dice.chance(5) { vec!["call".to_owned()] } else { vec![] },
            retry: None,
        }
    }

    fn commit(&mut self) -> RunCommit {
        let (workspace, run) = self.run();
        let loaded = self.oracle.load_run(&workspace, run).expect("the oracle reads");
        let (epoch, version) = loaded.as_ref().map_or((1, 1), |l| (l.row.epoch, l.row.version));
        let status = loaded.as_ref().map_or(Status::Running, |l| l.row.status);
        let inbox = loaded.map_or(vec![], |l| l.inbox);
        let settle = self.settle(status);
        let wrong = self.dice.chance(8);
        let now = self.oracle.now();
        let (events, values) = if self.dice.chance(80) {
            encode_events(&[Event::Delivered { payload: payload(self.json()) }])
        } else {
            (vec![], None)
        };
        RunCommit {
            epoch: if wrong && self.dice.chance(50) { epoch + 1 } else { epoch },
            version: if wrong { version + self.dice.below(2) } else { version },
            events,
            values,
            head: self.head(settle),
            timers_set: (0..self.dice.below(3)).map(|i| (i, now.plus(self.dice.below(20) as i64))).collect(),
            timers_cleared: if self.dice.chance(20) { vec![0, 1] } else { vec![] },
            errands: vec![],
            effects: (0..self.dice.below(2)).map(|_| self.effect(run)).collect(),
            task_words: (0..self.dice.below(3)).map(|_| self.task_word()).collect(),
            logs: (0..self.dice.below(2)).map(|_| self.log(run)).collect(),
            labels: self.dice.chance(10).then(|| self.labels()),
            answers: vec![],
            inbox_consumed: if self.dice.chance(50) { inbox.iter().map(|(seq, _)| *seq).collect() } else { vec![] },
            outputs: self.dice.chance(20).then(|| self.json()),
            failure: self.dice.chance(10).then(|| self.json()),
            snapshot: self.dice.chance(15).then(|| vec![self.dice.below(256) as u8; 5]),
            ops: if self.dice.chance(25) { vec![self.op()] } else { vec![] },
            settle,
            cancels: if self.dice.chance(5) { vec![(self.run().1, by())] } else { vec![] },
            announce: self.dice.chance(20).then(|| self.dice.pick(&["SUCCESS", "FAILED"]).into()),
            amend: self.dice.chance(5).then(|| self.amend()),
            reopen: (settle == Settle::Reopened).then(|| self.reopen(&workspace)),
            workspace,
            run,
        }
    }

    fn amend(&mut self) -> Box<Amend> {
        Box::new(Amend {
            flow: self.dice.chance(50).then(|| (FlowRef::new("shop", "order"), 2)),
            inputs: self.dice.chance(50).then(|| self.json()),
            correlation_id: self.dice.chance(50).then(|| "amended".to_owned()),
        })
    }

    fn reopen(&mut self, workspace: &WorkspaceId) -> Reopen {
        let claim = self.dice.chance(50).then(|| self.claim(workspace).hash);
        Reopen { claim, lifts: self.dice.chance(50).then(by), forced: self.dice.chance(20) }
    }

    fn settle(&mut self, status: Status) -> Settle {
        let end = self.dice.pick(&[EndStatus::Completed, EndStatus::Failed, EndStatus::Cancelled]);
        match self.dice.below(10) {
            0..=4 if !status.is_ended() => Settle::Ended { status: end },
            0..=2 => Settle::Reopened,
            3 => Settle::ReopenedByTwin,
            _ => Settle::Unchanged,
        }
    }

    fn head(&mut self, settle: Settle) -> HeadChange {
        let doubts = u32::from(self.dice.chance(8));
        let status = match settle {
            _ if doubts > 0 => Status::Held,
            Settle::Ended { status: EndStatus::Completed } => Status::Completed,
            Settle::Ended { status: EndStatus::Failed } => Status::Failed,
            Settle::Ended { status: EndStatus::Cancelled } => Status::Cancelled,
            Settle::Unchanged | Settle::Reopened | Settle::ReopenedByTwin => {
                self.dice.pick(&[Status::Running, Status::Waiting, Status::Paused])
            }
        };
        HeadChange {
            status,
            active: status == Status::Running,
            open_intents: u32::from(self.dice.chance(15)),
            open_doubts: doubts,
            take: self.dice.below(2) as u32,
            warned: self.dice.chance(10),
            conclusion: self.dice.chance(10).then(|| self.dice.pick(&Conclusion::ALL)),
        }
    }

    fn effect(&mut self, run: RunId) -> EffectRow {
        EffectRow {
            step_id: Hash16([self.dice.below(3) as u8; 16]),
            run,
            step: StepKey("call".into()),
            class: self.dice.pick(&EffectClass::ALL),
            state: self.dice.pick(&[
                EffectState::Intent,
                EffectState::Done,
                EffectState::FailedClean,
                EffectState::InDoubt,
            ]),
            attempt: 1,
            sends: self.dice.below(3) as u32,
            out_key: "key".into(),
            safe_until: self.dice.chance(50).then_some(Millis(5)),
            at: self.oracle.now(),
        }
    }

    fn task_word(&mut self) -> TaskWord {
        let of = self.dice.pick(&[WordOf::Name, WordOf::Id, WordOf::Trouble, WordOf::Untold]);
        TaskWord { of, text: self.dice.pick(&["a", "b\u{0}", ""]).to_string() }
    }

    fn log(&mut self, run: RunId) -> LogRow {
        // Now and then a number is used twice, which must be refused.
        self.last_log += u64::from(self.dice.chance(97));
        LogRow {
            run,
            seq: self.last_log,
            at: self.oracle.now(),
            level: "INFO".into(),
            step: StepKey("log".into()),
            message: "hello".into(),
        }
    }

    fn op(&mut self) -> CommitOp {
        let (namespace, key) = ("shop".to_owned(), format!("v{}", self.dice.below(3)));
        let error_on_missing = self.dice.chance(50);
        let kind = match self.dice.below(13) {
            0 => OpKind::KvSet {
                namespace,
                key,
                value: self.json(),
                kv_type: "JSON".into(),
                overwrite: error_on_missing,
                ttl_ms: self.dice.chance(50).then_some(10),
            },
            1 => OpKind::KvGet { namespace, key, error_on_missing },
            2 => OpKind::KvDelete { namespace, key, error_on_missing },
            3 => OpKind::Admit(Box::new(self.admit())),
            4 => OpKind::EnterLaneOrEnd { status: EndStatus::Failed },
            5 => OpKind::ForceLane,
            6 => OpKind::Kill { run: self.run().1, by: by(), alone: false },
            7 => OpKind::Remember { digest: Hash16::of(&[key.as_bytes()]), ttl_ms: Some(20) },
            8 => {
                let (ticket, control) = (Hash16::of(&[b"ticket"]), serde_json::json!("Resume"));
                OpKind::Ask { run: self.run().1, ticket, control, by: by() }
            }
            10 => OpKind::StateGet { namespace, key, error_on_missing },
            11 => {
                let data = [("a".to_owned(), self.json()), (key.clone(), self.json())].into_iter().collect();
                OpKind::StateSet { namespace, key, data }
            }
            9 => OpKind::RunAgain { request: Box::new(self.admit()), by: by(), round: 2, announced: true },
            _ => OpKind::EnterLane,
        };
        CommitOp { step: StepKey("op".into()), kind }
    }

    fn kv(&mut self) -> Work {
        let (workspace, key) = (self.workspace(), format!("v{}", self.dice.below(3)));
        if self.dice.chance(25) {
            return Work::KvDelete { workspace, namespace: "shop".into(), key };
        }
        Work::KvSet {
            workspace,
            namespace: "shop".into(),
            key,
            value: self.json(),
            kv_type: "JSON".into(),
            overwrite: self.dice.chance(60),
            ttl_ms: self.dice.chance(50).then_some(self.dice.below(20) as i64),
        }
    }

    fn file(&mut self) -> Work {
        let (workspace, run) = self.run();
        let (file, path) = (Hash16([self.dice.below(4) as u8; 16]), format!("/{}", self.dice.below(2)));
        let bytes = vec![b'a' + self.dice.below(3) as u8; 3];
        let number = self.dice.below(2) as u32;
        match self.dice.below(5) {
            0 => Work::DeleteFile { workspace, run, path },
            1 | 2 => Work::PutChunk(Box::new(FileChunk { workspace, run, file, number, bytes })),
            _ => {
                let row = FileRow { run, path, file, bytes: 3, chunks: number + 1, at: Millis(0) };
                let last = self.dice.chance(50).then_some(bytes);
                Work::PutFile { workspace, row: Box::new(row), last }
            }
        }
    }

    fn message(&mut self) -> Work {
        let (workspace, run) = self.run();
        let other = self.run().1;
        let payload = self.json();
        let message = self.dice.pick(&[
            Inbox::Promoted,
            Inbox::Cancel { by: by() },
            Inbox::Delivered { payload: payload.clone() },
            Inbox::ChildEnded {
                run: other,
                status: EndStatus::Failed,
                conclusion: None,
                warned: false,
                outputs: payload,
                doubts: 1,
            },
            Inbox::DoubtsBelow { run: other, count: 2 },
            Inbox::Restart { by: by() },
        ]);
        Work::Message { workspace, run, message }
    }

    fn sweep(&mut self) -> Work {
        let history_ms = self.dice.chance(60).then(|| self.dice.below(50) as i64);
        let decisions_ms = self.dice.pick(&[30_i64, 86_400_000]);
        let uploads_ms = self.dice.below(30) as i64;
        Work::Sweep(SweepRules { limit: 1 + self.dice.below(8) as u32, decisions_ms, uploads_ms, history_ms })
    }

    fn schedule(&mut self, trigger: &str) -> ScheduleRow {
        let next_due = self.dice.chance(70).then(|| self.oracle.now().plus(self.dice.below(9) as i64));
        ScheduleRow {
            workspace: self.workspace(),
            flow: self.flow(),
            trigger: trigger.into(),
            next_due,
            last_fired: None,
            state: Default::default(),
        }
    }

    fn hearing(&mut self) -> Option<Hearing> {
        let changes = self.oracle.changes(self.oracle.now(), 9).expect("the oracle reads");
        let change = changes.get(self.dice.below(9) as usize)?;
        let window = |met: &str| WindowState { start: change.at, end: change.at, met: [met.to_owned()].into() };
        let windows = |met: &str| Windows::from([("both".to_owned(), window(met))]);
        let before = if self.dice.chance(70) { Windows::new() } else { windows("a") };
        let after = if self.dice.chance(30) { Windows::new() } else { windows("a") };
        Some(Hearing {
            run: change.run,
            version: change.version,
            at: change.at,
            flow: self.flow(),
            trigger: "tick".into(),
            windows: self.dice.chance(60).then_some((before, after)),
        })
    }

    fn hear(&mut self) -> Work {
        match self.hearing() {
            Some(hearing) if self.dice.chance(70) => Work::Hear { workspace: self.workspace(), hearing },
            None if self.dice.chance(60) => {
                let changes = [TriggerChange::Disable, TriggerChange::Enable, TriggerChange::EndBackfill];
                let change = self.dice.pick(&changes);
                Work::ChangeTrigger { workspace: self.workspace(), flow: self.flow(), trigger: "tick".into(), change }
            }
            Some(Hearing { run, version, .. }) => Work::Heard { workspace: self.workspace(), run, version },
            None => self.message(),
        }
    }

    fn put_flow(&mut self) -> Work {
        let schedule = self.schedule("tick");
        let source = format!("source {}", self.dice.below(3));
        let row = FlowRow {
            workspace: schedule.workspace.clone(),
            flow: schedule.flow.clone(),
            revision: 0,
            ir: source.clone(),
            source,
            disabled: self.dice.chance(20),
            deleted: false,
            created_at: Millis(0),
            created_by: "me".into(),
        };
        let schedules = if self.dice.chance(60) { vec![schedule] } else { vec![] };
        Work::PutFlow {
            row: Box::new(row),
            schedules,
            rule: self.dice.pick(&[PushRule::Any, PushRule::New, PushRule::Known]),
        }
    }

    fn delete_flow(&mut self) -> Work {
        Work::DeleteFlow { workspace: self.workspace(), flow: self.flow(), by: "me".into() }
    }

    fn secret(&mut self) -> Work {
        Work::PutSecret(Box::new(SecretRow {
            workspace: self.workspace(),
            name: "db".into(),
            version: 1 + self.dice.below(4),
            key_id: "k".into(),
            nonce: vec![1],
            ciphertext: vec![2],
            created_at: Millis(0),
            retired: false,
        }))
    }

    fn token(&mut self) -> Work {
        Work::PutToken(Box::new(TokenRow {
            id: self.dice.pick(&["t1", "t2"]).into(),
            workspace: self.workspace(),
            name: "ci".into(),
            role: "viewer".into(),
            secret_hash: vec![3],
            created_at: self.oracle.now(),
            expires_at: None,
            revoked_at: None,
        }))
    }

    fn log_decision(&mut self) -> Work {
        let request = self.admit();
        match self.oracle.peek(&request).expect("the oracle reads") {
            Some((_, row)) => Work::LogDecision(Box::new(row)),
            None => Work::Admit(Box::new(request)),
        }
    }
}

fn payload(value: Json) -> semel_core::run::Payload {
    semel_core::run::Payload::new(value)
}
