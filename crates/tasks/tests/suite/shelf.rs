//! Files in memory, and a performer that keeps its files there.

use semel_core::limits::Limits;
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_tasks::{
    CountOf, Equipment, Expressions, FileAt, FileError, Files, Home, KeyAt, LogEntry, NetConfig, Outcome, Performer,
    Purge, Purged, Request, ScriptConfig,
};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub struct Shelf {
    files: Mutex<BTreeMap<(String, String), FileAt>>,
    chunks: Mutex<BTreeMap<(Hash16, u32), Vec<u8>>>,
    last: AtomicU8,
    pub age_ms: AtomicI64,
    pub purged: Mutex<Option<Purge>>,
    pub gone: Mutex<BTreeSet<String>>,
}

pub const BYTES_MAX: u64 = 2_000_000;

impl Files for Shelf {
    fn find(&self, workspace: &WorkspaceId, uri: &str) -> Result<Option<FileAt>, FileError> {
        let Some((_, path)) = semel_core::files::parse(uri) else { return Ok(None) };
        Ok(self.files.lock().unwrap().get(&(workspace.0.clone(), path.to_owned())).cloned())
    }
    fn chunk(&self, _: &WorkspaceId, at: &FileAt, number: u32) -> Result<Vec<u8>, FileError> {
        Ok(self.chunks.lock().unwrap()[&(at.file, number)].clone())
    }
    fn fresh(&self) -> Hash16 {
        Hash16([self.last.fetch_add(1, Ordering::Relaxed); 16])
    }
    fn put_chunk(&self, _: &WorkspaceId, at: &FileAt, number: u32, bytes: Vec<u8>) -> Result<(), FileError> {
        self.chunks.lock().unwrap().insert((at.file, number), bytes);
        Ok(())
    }
    fn put_file(&self, workspace: &WorkspaceId, at: FileAt, last: Option<Vec<u8>>) -> Result<(), FileError> {
        if let Some(bytes) = last {
            self.chunks.lock().unwrap().insert((at.file, at.chunks - 1), bytes);
        }
        self.files.lock().unwrap().insert((workspace.0.clone(), at.path.clone()), at);
        Ok(())
    }
    fn list(&self, workspace: &WorkspaceId, _: RunId, prefix: &str, limit: usize) -> Result<Vec<FileAt>, FileError> {
        let files = self.files.lock().unwrap();
        let is_below = |path: &str| path.starts_with(prefix) && path != prefix;
        let mine = files.iter().filter(|((ws, path), _)| *ws == workspace.0 && is_below(path));
        Ok(mine.take(limit).map(|(_, at)| at.clone()).collect())
    }
    fn delete(&self, workspace: &WorkspaceId, uri: &str) -> Result<bool, FileError> {
        let Some((_, path)) = semel_core::files::parse(uri) else { return Ok(false) };
        Ok(self.files.lock().unwrap().remove(&(workspace.0.clone(), path.to_owned())).is_some())
    }
    fn bytes_max(&self) -> u64 {
        BYTES_MAX
    }
    /// All files are as old as this number says.
    fn now(&self) -> Millis {
        Millis(self.age_ms.load(Ordering::Relaxed))
    }
    /// Each flow has had as many runs as its name is long, a namespace ten.
    fn count_runs(&self, _: &WorkspaceId, of: &CountOf) -> Result<u64, FileError> {
        Ok(of.flow_id.as_ref().map_or(10, |flow| flow.len() as u64))
    }
    fn purge(&self, _: &Home, what: &Purge) -> Result<Purged, FileError> {
        *self.purged.lock().unwrap() = Some(what.clone());
        Ok(Purged { runs: 3, logs: 2, files: 1, kept: 4 })
    }
    fn namespaces_with_keys(&self, _: &WorkspaceId) -> Result<Vec<String>, FileError> {
        Ok(["other", "shop", "shop.eu", "shopping"].map(str::to_owned).to_vec())
    }
    /// Two keys in each namespace, one of which is over, until somebody deletes them.
    fn keys(&self, _: &WorkspaceId, namespace: &str) -> Result<Vec<KeyAt>, FileError> {
        let gone = self.gone.lock().unwrap();
        let all = [("lives", false), ("over", true)].map(|(name, is_over)| KeyAt { name: name.to_owned(), is_over });
        Ok(all.into_iter().filter(|key| !gone.contains(&format!("{namespace}/{}", key.name))).collect())
    }
    fn delete_key(&self, _: &WorkspaceId, namespace: &str, key: &str) -> Result<bool, FileError> {
        Ok(self.gone.lock().unwrap().insert(format!("{namespace}/{key}")))
    }
    fn logs(&self, _: &WorkspaceId, _: RunId, after: u64, limit: u32) -> Result<Vec<LogEntry>, FileError> {
        let line = |seq: u64| LogEntry {
            seq,
            at: semel_core::Millis(0),
            level: if seq.is_multiple_of(2) { "WARN" } else { "DEBUG" }.to_owned(),
            task: format!("t{}", seq % 3),
            message: format!("line {seq}"),
        };
        Ok((after + 1..=2_500).take(limit as usize).map(line).collect())
    }
}

/// Knows `{{ name }}` alone.
struct Fields;

impl Expressions for Fields {
    fn render(&self, template: &str, item: &Json) -> Result<String, String> {
        let name = template.trim_matches(['{', '}', ' ']);
        item.get(name).map(|value| value.to_string()).ok_or_else(|| format!("no {name}"))
    }
}

/// A performer with files, and with scripts if it is given a directory.
pub struct Bench {
    pub shelf: Arc<Shelf>,
    performer: Performer,
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(None, Limits::default())
    }

    pub fn with_scripts(directory: &Path) -> Bench {
        Bench::with(Some(ScriptConfig { directory: directory.to_owned() }), Limits::default())
    }

    pub fn with(scripts: Option<ScriptConfig>, limits: Limits) -> Bench {
        let shelf = Arc::new(Shelf::default());
        let equipment = Equipment { files: shelf.clone(), items: Arc::new(Fields), scripts, limits };
        let performer = Performer::equipped(NetConfig::default(), equipment).expect("a performer");
        Bench { shelf, performer }
    }

    pub fn request(&self, type_name: &str, step: &str, config: Json) -> Request {
        let run = RunId::from_bytes([7; 16]);
        let path = format!("{}/tasks/{step}/00ff", semel_core::files::home(&FlowRef::new("shop", "order"), run));
        Request {
            type_name: type_name.to_owned(),
            home: Home {
                workspace: WorkspaceId::default(),
                run: Some(run),
                path,
                shared: None,
                namespace: "shop".into(),
            },
            ..super::server::request(config)
        }
    }

    pub async fn perform(&self, request: Request) -> Outcome {
        self.performer.perform(request).await
    }

    /// The output of a step that must be done.
    pub async fn done(&self, type_name: &str, step: &str, config: Json) -> Json {
        match self.perform(self.request(type_name, step, config)).await {
            Outcome::Done { output } => output,
            other => panic!("{other:?}"),
        }
    }

    pub async fn verdict(&self, type_name: &str, config: Json) -> String {
        super::server::verdict(&self.perform(self.request(type_name, "step", config)).await)
    }

    pub async fn write(&self, step: &str, content: &str) -> String {
        let output =
            self.done("storage.Write", step, serde_json::json!({"content": content, "extension": "txt"})).await;
        output["uri"].as_str().unwrap().to_owned()
    }

    pub fn text(&self, uri: &Json) -> String {
        let at = self.shelf.find(&WorkspaceId::default(), uri.as_str().unwrap()).unwrap().expect("the file is there");
        let bytes: Vec<u8> =
            (0..at.chunks).flat_map(|n| self.shelf.chunk(&WorkspaceId::default(), &at, n).unwrap()).collect();
        assert_eq!(bytes.len() as u64, at.bytes);
        String::from_utf8(bytes).unwrap()
    }
}
