//! The server as a process, to be killed and started again.

use super::canary;
use super::client::{Answer, Api};
use super::{PATIENCE, eventually};
use serde_json::{Value as Json, json};
use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Tokens instead of `--dev`.
    pub tokens: bool,
    pub environment: Vec<(String, String)>,
    /// Where the store is, if not beside the logs.
    pub data: Option<PathBuf>,
    /// A database instead of a file.
    pub database: Option<String>,
}

impl Options {
    pub fn data(mut self, directory: &Path) -> Options {
        self.data = Some(directory.to_owned());
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Options {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A running server; its store lives as long as this value.
pub struct Server {
    child: Option<Child>,
    api: Api,
    directory: TempDir,
    options: Options,
    canary: String,
}

impl Deref for Server {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

/// The binary under test: `SEMEL_BIN`, else beside this test in the target directory, built if it is not there.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("SEMEL_BIN") {
            return path.into();
        }
        let test = std::env::current_exe().expect("a path");
        let profile = test.parent().and_then(Path::parent).expect("target/<profile>/deps/<test>");
        let path = profile.join("semel");
        if !path.exists() {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "-p", "semel"]).env("CARGO_TARGET_DIR", profile.parent().expect("a target directory"));
            if profile.ends_with("release") {
                build.arg("--release");
            }
            assert!(build.status().expect("cargo").success(), "the binary does not build");
        }
        path
    })
}

impl Server {
    /// A server without tokens on a new store.
    pub async fn start() -> Server {
        Server::with(Options::default()).await
    }

    pub async fn with(options: Options) -> Server {
        let directory = TempDir::new().expect("a directory");
        let mut server = Server { child: None, api: Api::new(""), directory, options, canary: canary::fresh() };
        server.spawn().await;
        server
    }

    /// A command of the CLI, without what this machine has configured.
    pub fn command(&self) -> Command {
        let mut command = Command::new(binary());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SEMEL_")) {
            command.env_remove(name);
        }
        command.current_dir(self.directory.path()).stdin(Stdio::null()).env("NO_COLOR", "1");
        let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &self.canary);
        command.env(format!("SECRET_{}", canary::NAME), encoded);
        command.envs(self.options.environment.iter().cloned());
        command
    }

    /// `semel serve` on this store, not yet started.
    pub fn serve_command(&self, port_file: &Path) -> Command {
        let mut command = self.command();
        let file = format!("sqlite:{}", self.store().display());
        let store = self.options.database.as_ref().unwrap_or(&file);
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", store, "--data-dir"]);
        command.arg(self.store().parent().expect("a directory"));
        command.arg("--port-file").arg(port_file);
        if !self.options.tokens {
            command.arg("--dev");
        }
        command
    }

    async fn spawn(&mut self) {
        let port_file = self.path("address");
        // The file of an earlier process must not be taken for the new one's.
        let _ = std::fs::remove_file(&port_file);
        let log = |name: &str| File::options().create(true).append(true).open(self.path(name)).expect("a log file");
        let mut command = self.serve_command(&port_file);
        command.stdout(log("stdout.log")).stderr(log("stderr.log"));
        let mut child = command.spawn().expect("the binary starts");
        let address = eventually(PATIENCE, "the server is ready", || {
            if let Ok(Some(status)) = child.try_wait() {
                panic!("the server ended early ({status}):\n{}", self.logs());
            }
            std::future::ready(std::fs::read_to_string(&port_file).ok())
        })
        .await;
        self.child = Some(child);
        self.api.url = format!("http://{}", address.trim());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn store(&self) -> PathBuf {
        self.options.data.clone().unwrap_or_else(|| self.path("data")).join("semel.db")
    }

    /// What the process printed, on both streams, over all its lives.
    pub fn logs(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.path(name)).unwrap_or_default();
        format!("{}{}", read("stdout.log"), read("stderr.log"))
    }

    /// Every place where the server has left one of these secrets: its output, its answers, its files. The canary is
    /// looked for when the server is dropped; this is for secrets that a test made itself.
    pub fn leaks(&self, secrets: &[&str]) -> Vec<String> {
        let mut found = canary::found_in("answers", self.heard().as_bytes(), secrets);
        found.extend(canary::found_below(self.directory.path(), &[], secrets));
        found
    }

    /// The canary and, where there is one, the first token, which only its own file may hold.
    fn canary_leaks(&self) -> Vec<String> {
        let mut found = self.leaks(&[&self.canary]);
        let token = std::fs::read_to_string(self.path("data/admin.token")).unwrap_or_default();
        if let Some(secret) = token.trim().splitn(3, '_').nth(2) {
            found.extend(canary::found_below(self.directory.path(), &["admin.token"], &[secret]));
        }
        found
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a running server").id()
    }

    /// Resident memory in bytes, as the system counts it.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or("VmHWM: 0 kB");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    /// SIGKILL; gone when this returns.
    pub fn kill9(&mut self) {
        let mut child = self.child.take().expect("a running server");
        child.kill().expect("SIGKILL");
        child.wait().expect("an end");
    }

    pub fn terminate(&self) {
        let sent = Command::new("/bin/kill").args(["-TERM", &self.pid().to_string()]).status();
        assert!(sent.expect("/bin/kill").success());
    }

    /// Waits for the end of a process that was asked to end.
    pub async fn ended(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("a running server");
        eventually(PATIENCE, "the server ends", || std::future::ready(child.try_wait().expect("a child"))).await
    }

    /// SIGTERM, and the orderly end it must lead to.
    pub async fn stop(&mut self) {
        self.terminate();
        let status = self.ended().await;
        assert!(status.success(), "{status}:\n{}", self.logs());
    }

    /// Starts again on the same store; kills first if it still runs.
    pub async fn restart(&mut self) {
        if self.child.is_some() {
            self.kill9();
        }
        self.spawn().await;
    }

    /// Runs a client command against this server.
    pub async fn cli(&self, arguments: &[&str]) -> Output {
        let mut command = self.command();
        command.args(arguments).args(["--server", &self.api.url]);
        tokio::task::spawn_blocking(move || command.output().expect("the binary runs")).await.expect("no panic")
    }

    /// A client command that must succeed; its `data`.
    pub async fn cli_json(&self, arguments: &[&str]) -> Json {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let output = self.cli(&arguments).await;
        let said = String::from_utf8_lossy(&output.stderr);
        let envelope: Json =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no envelope: {output:?}"));
        assert!(output.status.success(), "{envelope} {said}");
        assert_eq!(envelope["ok"], true, "{envelope}");
        envelope["data"].clone()
    }

    pub async fn run(&self, id: &str) -> Json {
        self.get(&format!("/v1/runs/{id}")).await.ok()
    }

    /// Waits until the run has this status.
    pub async fn until(&self, id: &str, status: &str) -> Json {
        self.until_within(PATIENCE, id, status).await
    }

    pub async fn until_within(&self, limit: Duration, id: &str, status: &str) -> Json {
        let mut last = Json::Null;
        let began = std::time::Instant::now();
        loop {
            let run = self.run(id).await;
            if run["status"] == status {
                return run;
            }
            let ended = ["completed", "failed", "cancelled"].iter().any(|word| run["status"] == *word);
            // A status that cannot change by itself will not become another one by waiting.
            assert!(!ended && began.elapsed() < limit, "waited for {status}, last {run}, before {last}");
            last = run;
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    }

    /// All items of a list, page by page.
    pub async fn all(&self, path: &str) -> Vec<Json> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let sign = if path.contains('?') { '&' } else { '?' };
            let more = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let page = self.get(&format!("{path}{sign}limit=500{more}")).await.ok();
            items.extend(page["items"].as_array().cloned().expect("items"));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = Some(next.to_owned()),
                None => return items,
            }
        }
    }

    pub async fn runs(&self) -> Vec<Json> {
        self.all("/v1/runs").await
    }

    pub async fn runs_of(&self, flow: &str) -> Vec<Json> {
        self.all(&format!("/v1/runs?workflow_id=e2e:{flow}")).await
    }

    /// What is stored: runs, claims, decisions, flows.
    pub async fn stored(&self) -> Json {
        let mut counts = Json::Null;
        for path in ["/v1/runs", "/v1/keys", "/v1/decisions", "/v1/workflows"] {
            counts[path] = json!(self.all(path).await.len());
        }
        counts
    }

    pub async fn control(&self, run: &str, verb: &str) -> Answer {
        self.post(&format!("/v1/runs/{run}/{verb}"), json!({"why": "a test asks"})).await
    }

    /// All events of a run's journal, in order.
    pub async fn journal(&self, run: &str) -> Vec<Json> {
        let rows = self.all(&format!("/v1/runs/{run}/journal")).await;
        rows.iter().flat_map(|row| row["events"].as_array().cloned().unwrap_or_default()).collect()
    }

    pub async fn log_lines(&self, run: &str) -> Vec<String> {
        let rows = self.all(&format!("/v1/runs/{run}/logs")).await;
        rows.iter().map(|row| row["message"].as_str().unwrap_or("").to_owned()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only when it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let logs = self.logs();
            let lines: Vec<&str> = logs.lines().collect();
            eprintln!("the server's last lines:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"));
            return;
        }
        let leaks = self.canary_leaks();
        assert!(leaks.is_empty(), "secrets got out: {leaks:#?}");
    }
}
