//! The world of one seed: one thread, one clock, a heap of what happens next.

use super::actors::{Ending, Job};
use super::chance::Chance;
use super::faults::{Fault, Faults};
use super::flows::Flow;
use super::hub::{Hub, Later, NodeId, Ports, Sent, Submission, settle};
use super::model::{Model, Violation};
use super::outside::{Outside, short};
use super::plan::{Action, Script, Sending};
use super::restore::{Disk, Kept};
use super::works::{Report, Shop, Starting};
use parking_lot::{Mutex, RwLock};
use semel_core::Millis;
use semel_core::limits::Limits;
use semel_engine::Parts;
use semel_engine::sim::Node;
use semel_store::{Done, Reply, Result};
use semel_tasks::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Where all seeds begin.
pub const EPOCH: i64 = 1_700_000_000_000;
/// Events before the world heals, and after it.
const SAFETY_EVENTS: u64 = 2_000;
const LIVENESS_EVENTS: u64 = 3_000_000;
/// Virtual time in which everything must have come to rest.
const LIVENESS_MS: i64 = 400 * 86_400_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Safety,
    Liveness,
    /// Everything rests; fresh events must complete.
    Fresh,
    Over,
}

/// What happens next.
pub(super) enum Next {
    Act(usize),
    Send(Box<Sending>, u32),
    StartWork(Box<Starting>, u32),
    Report(Box<Report>),
    Apply(Submission),
    Answer(NodeId, Reply, Result<Done>),
    Arrive(Sent, usize),
    Respond(NodeId, Later<Outcome>, Outcome, usize),
    Wake(Later<()>),
    Look(NodeId),
    Start,
    Unpause(NodeId),
    Kill(NodeId, i64),
    NotFull,
    Heal,
    Operate(i64),
}

pub(super) struct Task {
    node: NodeId,
    future: Pin<Box<dyn Future<Output = Ending>>>,
    woken: Arc<Flag>,
    job: Job,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub(super) struct Living {
    pub node: Node,
    pub ports: Arc<Ports>,
    pub paused: bool,
    last_apply: i64,
    look_at: i64,
}

pub struct World {
    pub script: Script,
    pub hub: Arc<Hub>,
    pub now: i64,
    skew: i64,
    heap: BTreeMap<(i64, u64), Next>,
    next: u64,
    pub(super) nodes: BTreeMap<NodeId, Living>,
    pub(super) current: Option<NodeId>,
    last_node: NodeId,
    tasks: BTreeMap<u64, Task>,
    next_task: u64,
    pub outside: Outside,
    pub phase: Phase,
    pub(super) full: bool,
    healed_at: i64,
    /// Store time of the healing.
    pub healed_store: i64,
    pub events: u64,
    pub log: Vec<String>,
    pub keep_log: bool,
    pub hash: u64,
    pub(super) callers: u64,
    pub(super) answers: Vec<super::actors::Answered>,
    /// (workspace, flow, revision) → the text that was pushed.
    pub pushed: BTreeMap<(String, String, u32), Flow>,
    pub(super) heads: BTreeMap<(usize, usize), Flow>,
    pub(super) fresh: BTreeSet<u64>,
    /// By step id.
    pub(super) told: BTreeMap<String, super::actors::Told>,
    /// Kinds of journal events that were written.
    pub kinds: BTreeMap<String, u64>,
    pub statuses: BTreeMap<String, u64>,
    /// Wishes that people were told are granted.
    pub(super) granted: Vec<(semel_core::RunId, super::plan::Wish)>,
    /// Two nodes drove the same runs: who is left may not know of all of them.
    took_over: bool,
    /// The store was damaged on purpose: nodes must stop.
    pub(super) damaged: bool,
    latency: u64,
    pub(super) kept: Option<Kept>,
    /// The store was made from a backup, and how often somebody's word let a run go on since.
    pub(super) restored: bool,
    pub(super) words: BTreeMap<semel_core::RunId, usize>,
    /// How often something of each run was to be done again, whatever its rows still say of it.
    pub(super) said: BTreeMap<semel_core::RunId, usize>,
    pub(super) disk: Disk,
    pub(super) shop: Shop,
    _runtime: tokio::runtime::Runtime,
}

impl World {
    pub fn new(script: Script, keep_log: bool) -> World {
        let clock = Arc::new(AtomicI64::new(EPOCH));
        let reading = clock.clone();
        let time = Arc::new(move || Millis(reading.load(Ordering::SeqCst)));
        let (disk, inner) = Disk::new(script.sqlite, time);
        let mut model = Model::default();
        model.flows = script.flows.clone();
        let hub = Arc::new(Hub {
            store: RwLock::new(inner),
            faults: Mutex::new(Faults::new(script.seed, script.faults.clone())),
            model: Mutex::new(model),
            submitted: Mutex::default(),
            sent: Mutex::default(),
            errands: Mutex::default(),
            sleeps: Mutex::default(),
            clock,
            entropy: AtomicU64::new(1),
            damage: Mutex::default(),
            damage_seen: AtomicU64::new(0),
            seed: script.seed,
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let mut world = World {
            script,
            hub,
            now: 0,
            skew: 0,
            heap: BTreeMap::new(),
            next: 0,
            nodes: BTreeMap::new(),
            current: None,
            last_node: 0,
            tasks: BTreeMap::new(),
            next_task: 0,
            outside: Outside::default(),
            phase: Phase::Safety,
            full: false,
            healed_at: 0,
            healed_store: 0,
            events: 0,
            log: vec![],
            keep_log,
            hash: 0xcbf2_9ce4_8422_2325,
            callers: 0,
            answers: vec![],
            pushed: BTreeMap::new(),
            heads: BTreeMap::new(),
            fresh: BTreeSet::new(),
            told: BTreeMap::new(),
            kinds: BTreeMap::new(),
            statuses: BTreeMap::new(),
            granted: vec![],
            damaged: false,
            took_over: false,
            latency: 0,
            kept: None,
            restored: false,
            words: BTreeMap::new(),
            said: BTreeMap::new(),
            disk,
            shop: Shop::default(),
            _runtime: runtime,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.hub.faults.lock().on = false;
        self.start_node();
        for workspace in 0..self.script.workspaces {
            for flow in 0..self.script.flows.len() {
                self.push_flow(workspace, self.script.flows[flow].clone(), flow);
                self.let_tasks_end();
            }
            for definition in self.script.definitions.clone() {
                self.push_definition(workspace, definition);
                self.let_tasks_end();
            }
        }
        self.heap.clear();
        // Their looks went with the rest.
        self.nodes.values_mut().for_each(|living| living.look_at = i64::MAX);
        self.hub.faults.lock().on = true;
        for index in 0..self.script.actions.len() {
            let at = self.script.actions[index].0;
            self.at(at, Next::Act(index));
        }
        self.at(self.script.until + 5_000, Next::Heal);
        self.settle();
    }

    fn let_tasks_end(&mut self) {
        self.settle();
        while let Some(entry) = self.heap.first_entry() {
            let next = entry.remove();
            self.happen(next);
            self.settle();
            if self.tasks.is_empty() {
                break;
            }
        }
    }

    /// Runs the seed to its end.
    pub fn run(&mut self) {
        let runtime = self._runtime.handle().clone();
        let _inside = runtime.enter();
        while self.phase != Phase::Over {
            let Some(((at, _), next)) = self.heap.pop_first() else {
                self.broken("R11", "nothing is left to happen, and not everything is at rest".into());
                return;
            };
            if at > self.now {
                self.now = at;
                self.tick();
            }
            self.events += 1;
            if self.phase == Phase::Safety && self.events > SAFETY_EVENTS {
                self.heal();
            }
            let late = self.phase != Phase::Safety && self.now - self.healed_at > LIVENESS_MS;
            if self.events > SAFETY_EVENTS + LIVENESS_EVENTS || late {
                self.stuck();
                return;
            }
            self.happen(next);
            self.settle();
            if !self.hub.model.lock().violations.is_empty() {
                return;
            }
        }
    }

    pub(super) fn broken(&mut self, id: &'static str, text: String) {
        self.note(|| format!("VIOLATION {id}: {text}"));
        self.hub.model.lock().violations.push(Violation { id, text });
    }

    pub(super) fn note(&mut self, line: impl FnOnce() -> String) {
        let line = format!("{:>10} {}", self.now, line());
        for byte in line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.keep_log {
            self.log.push(line);
        }
    }

    pub(super) fn at(&mut self, time: i64, next: Next) {
        self.next += 1;
        self.heap.insert((time.max(self.now), self.next), next);
    }

    fn tick(&mut self) {
        self.hub.clock.store(EPOCH + self.now + self.skew, Ordering::SeqCst);
    }

    /// A source of chance for the next small matter.
    pub(super) fn dice(&mut self) -> Chance {
        self.latency += 1;
        Chance::of(self.script.seed, 11, self.latency)
    }

    pub(super) fn store_now(&self) -> i64 {
        self.hub.inner().now().0
    }

    fn happen(&mut self, next: Next) {
        match next {
            Next::Act(index) => {
                let action = self.script.actions[index].1.clone();
                self.act(action);
            }
            Next::Send(sending, tried) => self.send(*sending, tried),
            Next::StartWork(starting, tried) => self.start_work(*starting, tried),
            Next::Report(report) => self.report(*report),
            Next::Apply(submission) => self.apply(submission),
            Next::Answer(node, reply, answer) => match self.nodes.get(&node).map(|n| n.paused) {
                Some(false) => reply(answer),
                Some(true) => self.at(self.now + 50, Next::Answer(node, reply, answer)),
                None => {}
            },
            Next::Arrive(sent, index) => self.arrive(sent, index),
            Next::Respond(node, slot, outcome, index) => {
                if self.nodes.contains_key(&node) {
                    match &outcome {
                        Outcome::FailedClean { .. } => self.outside.seen[index].answered_failure = true,
                        Outcome::Done { .. } => self.outside.seen[index].answered_done = true,
                        Outcome::Lost { .. } => {}
                    }
                    settle(&slot, outcome);
                }
            }
            Next::Wake(slot) => settle(&slot, ()),
            Next::Look(node) => {
                if let Some(living) = self.nodes.get_mut(&node) {
                    living.look_at = i64::MAX;
                }
            }
            Next::Start => self.start_node(),
            Next::Unpause(node) => {
                if let Some(living) = self.nodes.get_mut(&node) {
                    living.paused = false;
                    self.note(|| format!("node {node} goes on"));
                }
            }
            Next::Kill(node, down_ms) => self.kill(node, down_ms),
            Next::NotFull => {
                self.full = false;
                self.note(|| "the disk has space again".into());
            }
            Next::Heal => {
                if self.phase == Phase::Safety {
                    self.heal();
                }
            }
            Next::Operate(gap) => self.operate(gap),
        }
    }

    // ---- nodes

    pub(super) fn start_node(&mut self) {
        if self.current.is_some() {
            return;
        }
        self.last_node += 1;
        let node = self.last_node;
        let ports = Arc::new(Ports { hub: self.hub.clone(), node, poisoned: Mutex::new(None) });
        let parts = Parts {
            store: ports.clone(),
            clock: self.hub.clone(),
            entropy: self.hub.clone(),
            performer: ports.clone(),
            catalog: &semel_tasks::REGISTRY,
            limits: Limits::default(),
            master_key: None,
            environment: vec![],
            url: None,
        };
        let mut living =
            Living { node: Node::new(parts, ports.clone()), ports, paused: false, last_apply: 0, look_at: i64::MAX };
        self.note(|| format!("node {node} starts"));
        living.node.recover();
        self.nodes.insert(node, living);
        self.current = Some(node);
    }

    /// The process is gone, with all it had not written.
    pub(super) fn kill(&mut self, node: NodeId, down_ms: i64) {
        if self.nodes.remove(&node).is_none() {
            return;
        }
        self.note(|| format!("node {node} is gone"));
        let mut lost = Vec::new();
        self.tasks.retain(|_, task| {
            if task.node == node {
                lost.push(std::mem::replace(&mut task.job, Job::Errand));
            }
            task.node != node
        });
        for job in lost {
            self.unanswered(job);
        }
        self.hub.submitted.lock().retain(|s| s.node != node);
        self.hub.sent.lock().retain(|s| s.node != node);
        self.hub.errands.lock().retain(|(n, _)| *n != node);
        if self.current == Some(node) {
            self.current = None;
            self.at(self.now + down_ms, Next::Start);
        }
    }

    pub(super) fn die(&mut self, node: NodeId, why: Fault) {
        self.note(|| format!("node {node}: {}", why.word()));
        let down = self.dice().range(1, 3_000);
        self.kill(node, down);
    }

    fn pause(&mut self, node: NodeId, ms: i64) {
        if let Some(living) = self.nodes.get_mut(&node) {
            living.paused = true;
        }
        self.note(|| format!("node {node} is paused for {ms} ms"));
        self.at(self.now + ms, Next::Unpause(node));
    }

    // ---- what nodes asked for

    /// Lets everything go on that can without time passing.
    pub(super) fn settle(&mut self) {
        loop {
            let mut moved = false;
            let errands = std::mem::take(&mut *self.hub.errands.lock());
            for (node, errand) in errands {
                self.spawn(
                    node,
                    Job::Errand,
                    Box::pin(async move {
                        errand.await;
                        Ending::Nothing
                    }),
                );
                moved = true;
            }
            moved |= self.poll();
            let ids: Vec<NodeId> = self.nodes.iter().filter(|(_, l)| !l.paused).map(|(id, _)| *id).collect();
            for id in ids {
                while self.nodes.get_mut(&id).is_some_and(|living| living.node.turn()) {
                    moved = true;
                }
            }
            moved |= self.collect();
            if !moved {
                break;
            }
        }
        self.watch_nodes();
    }

    pub(super) fn spawn(&mut self, node: NodeId, job: Job, future: Pin<Box<dyn Future<Output = Ending>>>) {
        self.next_task += 1;
        let woken = Arc::new(Flag(AtomicBool::new(true)));
        self.tasks.insert(self.next_task, Task { node, future, woken, job });
    }

    pub(super) fn open_jobs(&self) -> impl Iterator<Item = &Job> {
        self.tasks.values().map(|task| &task.job)
    }

    fn poll(&mut self) -> bool {
        let ready: Vec<u64> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.woken.0.load(Ordering::SeqCst))
            .filter(|(_, task)| self.nodes.get(&task.node).is_some_and(|n| !n.paused))
            .map(|(id, _)| *id)
            .collect();
        let any = !ready.is_empty();
        for id in ready {
            let Some(mut task) = self.tasks.remove(&id) else { continue };
            task.woken.0.store(false, Ordering::SeqCst);
            let waker = Waker::from(task.woken.clone());
            match task.future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(ending) => self.ended(task.node, task.job, ending),
                Poll::Pending => {
                    self.tasks.insert(id, task);
                }
            }
        }
        any
    }

    fn collect(&mut self) -> bool {
        let submitted = std::mem::take(&mut *self.hub.submitted.lock());
        let sent = std::mem::take(&mut *self.hub.sent.lock());
        let sleeps = std::mem::take(&mut *self.hub.sleeps.lock());
        let any = !(submitted.is_empty() && sent.is_empty() && sleeps.is_empty());
        for submission in submitted {
            let mut dice = self.dice();
            let slow = self.hub.faults.lock().strikes(Fault::SlowCommit);
            let delay = if slow { dice.range(100, 10_000) } else { dice.range(0, 3) };
            let Some(living) = self.nodes.get_mut(&submission.node) else { continue };
            // Writes of one caller are applied in order.
            living.last_apply = living.last_apply.max(self.now + delay);
            let at = living.last_apply;
            self.at(at, Next::Apply(submission));
        }
        for sent in sent {
            if self.hub.faults.lock().strikes(Fault::CrashAfterIntent) {
                self.die(sent.node, Fault::CrashAfterIntent);
                continue;
            }
            if !self.nodes.contains_key(&sent.node) {
                continue;
            }
            let now = self.store_now();
            let flows = self.script.flows.clone();
            let index = self.outside.leave(&sent.request, now, &flows);
            self.check_intent(index);
            self.check_held(index);
            self.note(|| format!("call {index} leaves: {}", sent.request.config["uri"]));
            let travel = self.dice().range(0, 5);
            self.at(self.now + travel, Next::Arrive(sent, index));
        }
        for (node, ms, slot) in sleeps {
            if self.nodes.contains_key(&node) {
                self.at(self.now + ms as i64, Next::Wake(slot));
            }
        }
        any
    }

    fn arrive(&mut self, sent: Sent, index: usize) {
        let alive = self.nodes.contains_key(&sent.node);
        if !alive && self.dice().percent(50) {
            return; // never left the machine
        }
        let now = self.store_now();
        let mut dice = self.dice();
        let timeout = sent.request.timeout_ms as i64;
        let flows = std::mem::take(&mut self.script.flows);
        let back = self.outside.arrive(index, now, timeout, &mut self.hub.faults.lock(), &flows, &mut dice);
        self.script.flows = flows;
        let applied = self.outside.seen[index].applied;
        self.note(|| format!("call {index} arrives (applied {applied}): {:?}", short(&back.outcome)));
        if alive && self.hub.faults.lock().strikes(Fault::CrashAfterEffect) {
            return self.die(sent.node, Fault::CrashAfterEffect);
        }
        self.at(self.now + back.after_ms, Next::Respond(sent.node, sent.slot, back.outcome, index));
    }

    // ---- time, trouble and healing

    /// Nodes that must stop are ended; the others are looked at when their next timer is due.
    fn watch_nodes(&mut self) {
        let next_timer = self.hub.inner().next_timer().ok().flatten();
        let store_now = self.store_now();
        let mut looks = Vec::new();
        let mut fatal = Vec::new();
        for (id, living) in &mut self.nodes {
            if let Some(why) = living.node.fatal() {
                fatal.push((*id, why, living.ports.poisoned.lock().is_some()));
            }
            // Looks that could find nothing are left out.
            let due = next_timer.map_or(store_now + 3_600_000, |due| due.0);
            let want = living.node.next_look().0.max(due).max(store_now + 1) - EPOCH - self.skew;
            let want = want.max(self.now + 1);
            if want < living.look_at {
                living.look_at = want;
                looks.push((want, *id));
            }
        }
        for (at, id) in looks {
            self.at(at, Next::Look(id));
        }
        for (id, why, ours) in fatal {
            if !ours && !self.damaged {
                self.broken("R13", format!("node {id} stopped on a sound store: {why}"));
            }
            let down = self.dice().range(1, 3_000);
            self.at(self.now + 50, Next::Kill(id, down));
        }
    }

    pub(super) fn trouble(&mut self, action: &Action) {
        let on = self.phase == Phase::Safety;
        let count = |world: &World, fault| world.hub.faults.lock().count(fault);
        match (*action).clone() {
            _ if !on => {}
            Action::ClockJump { ms } => {
                count(self, if ms < 0 { Fault::ClockBack } else { Fault::ClockForward });
                self.skew += ms;
                self.tick();
                self.note(|| format!("the clock jumps by {ms} ms"));
            }
            Action::Full { ms } => {
                count(self, Fault::DiskFull);
                self.full = true;
                self.note(|| "the disk is full".into());
                self.at(self.now + ms, Next::NotFull);
            }
            Action::Kill { down_ms } => {
                if let Some(node) = self.current {
                    count(self, Fault::Killed);
                    self.kill(node, down_ms);
                }
            }
            Action::Pause { ms } => {
                if let Some(node) = self.current {
                    count(self, Fault::NodePaused);
                    self.pause(node, ms);
                }
            }
            Action::Takeover { paused_ms, after_ms } => {
                if let Some(node) = self.current.take() {
                    count(self, Fault::Takeover);
                    self.took_over = true;
                    self.pause(node, paused_ms);
                    self.start_node();
                    self.at(self.now + paused_ms + after_ms, Next::Kill(node, 0));
                }
            }
            Action::Backup => self.back_up(),
            Action::Restore { accepted } => self.restore(accepted),
            _ => {}
        }
    }

    /// No more faults: one node, a right clock, receivers that answer.
    fn heal(&mut self) {
        self.note(|| "the world heals".into());
        self.phase = Phase::Liveness;
        self.healed_at = self.now;
        self.full = false;
        self.hub.faults.lock().on = false;
        // A restart would also heal what a living node has forgotten: every other seed does without.
        let sound = |living: &Living| !living.paused && living.ports.poisoned.lock().is_none();
        let alone = self.nodes.len() == 1 && self.current.is_some_and(|node| sound(&self.nodes[&node]));
        let keep = alone && self.script.seed.is_multiple_of(2) && !self.took_over;
        if !keep {
            let nodes: Vec<NodeId> = self.nodes.keys().copied().collect();
            self.current = None;
            for node in nodes {
                self.kill(node, 0);
            }
        }
        self.skew = self.skew.max(self.store_now() - EPOCH - self.now);
        self.tick();
        self.healed_store = self.store_now();
        self.start_node();
        self.at(self.now + 1_000, Next::Operate(60_000));
    }

    /// One thing happens, without the bounds of a seed. False when nothing is left.
    pub(super) fn one_event(&mut self) -> bool {
        let runtime = self._runtime.handle().clone();
        let _inside = runtime.enter();
        let Some(((at, _), next)) = self.heap.pop_first() else { return false };
        self.now = self.now.max(at);
        self.tick();
        self.happen(next);
        self.settle();
        true
    }

    /// The process dies and starts; its first looks happen.
    pub(super) fn restart_and_look(&mut self) {
        if let Some(node) = self.current.take() {
            self.kill(node, 0);
        }
        self.heap.clear();
        self.start_node();
        self.settle();
    }

    /// The code the present node stopped with.
    pub(super) fn stopped_with(&self) -> Option<&'static str> {
        self.nodes.get(&self.current?)?.node.fatal().map(|why| why.code())
    }

    /// Writes, requests and answers that nobody has heard of yet.
    pub(super) fn on_its_way(&self) -> bool {
        let travels =
            |next: &Next| matches!(next, Next::Apply(_) | Next::Answer(..) | Next::Arrive(..) | Next::Respond(..));
        self.heap.values().any(travels)
    }

    /// Actions of the script that are still to come.
    pub(super) fn script_left(&self) -> bool {
        self.heap
            .values()
            .any(|next| matches!(next, Next::Act(_) | Next::Send(..) | Next::StartWork(..) | Next::Report(_)))
    }
}
