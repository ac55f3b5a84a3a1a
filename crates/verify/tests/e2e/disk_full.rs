//! A disk without room: writes are refused with a reason, reads go on, and when there is room again all goes on.

use crate::harness::{Bank, Options, PATIENCE, Server, eventually, post, quick};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const SIZE: &str = "size=16m";

/// A small disk of its own. It is let go of at the end, whatever happens.
struct SmallDisk {
    directory: TempDir,
}

impl SmallDisk {
    /// `None` where this user may not mount.
    fn mount() -> Option<SmallDisk> {
        let directory = TempDir::new().expect("a directory");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", SIZE, "tmpfs"]).arg(directory.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| SmallDisk { directory })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Fills what is left, but for this many bytes.
    fn fill(&self, left: u64) {
        // Until it does not take more; the file then has all there was.
        let all = std::fs::write(self.ballast(), vec![b'x'; 20 << 20]);
        assert!(all.is_err(), "the disk is larger than it was asked to be");
        let file = std::fs::File::options().write(true).open(self.ballast()).expect("the ballast");
        let size = file.metadata().expect("its size").len();
        file.set_len(size.saturating_sub(left)).expect("a shorter file");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A server that is still there would hold it; lazily, so that it goes away with the last user.
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_writes_keeps_reads_and_recovers() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("SKIPPED: no tmpfs can be mounted here, so a full disk was NOT tested; run as root");
        return;
    };
    let bank = Bank::start().await;
    let mut server = Server::with(Options::default().data(&disk.path().join("data"))).await;
    server.push(&quick("a")).await;
    server.push(&post("pay", &bank.url("/hold/pay"), "effect: keyed")).await;
    let before = server.trigger_wait("a", Some("before"), json!({})).await.run_id();
    // A run is in the middle of an effect when the disk fills up.
    let paying = server.trigger("pay", Some("p"), json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    disk.fill(64 << 10);

    // Events are taken until there is no room, and then refused in words.
    let mut taken = vec![("before".to_owned(), before)];
    let mut refused = None;
    for number in 0..400 {
        let key = format!("evt-{number}");
        let answer = server.trigger("a", Some(&key), json!({"text": "x".repeat(4_000)})).await;
        if answer.status == 200 {
            taken.push((key, answer.run_id()));
            continue;
        }
        answer.refused(507, "store_full");
        refused = Some(key);
        break;
    }
    let refused = refused.expect("the disk was never full");
    assert_eq!(server.get("/health/live").await.status, 200);
    assert_eq!(server.get("/health/ready").await.status, 503);

    // The effect is answered while there is no room for its outcome: it must not be forgotten.
    bank.release("pay", 5);
    // Everything that was answered can be read, and its twins are answered, which needs no room.
    for (key, run) in &taken {
        assert_eq!(server.run(run).await["run_id"], run.as_str());
        let twin = server.trigger("a", Some(key), json!({"text": "x".repeat(4_000)})).await;
        assert_eq!((twin.run_id(), twin.replayed()), (run.clone(), true));
    }

    // There is room again: nothing has to be started anew.
    std::fs::remove_file(disk.ballast()).expect("the ballast");
    let later = eventually(PATIENCE, "events are taken again", || async {
        let answer = server.trigger("a", Some(&refused), json!({"text": "later"})).await;
        (answer.status == 200).then(|| answer.run_id())
    })
    .await;
    server.until(&later, "completed").await;
    server.until(&paying, "completed").await;
    for (_, run) in &taken {
        server.until(run, "completed").await;
    }
    assert_eq!((bank.count("pay"), bank.applied("pay")), (1, 1), "the answer that came meanwhile was kept");
    eventually(PATIENCE, "it is ready again", || async {
        (server.get("/health/ready").await.status == 200).then_some(())
    })
    .await;

    // And the file is whole: the next process finds it all.
    server.restart().await;
    for (key, run) in &taken {
        let twin = server.trigger("a", Some(key), json!({"text": "x".repeat(4_000)})).await;
        assert_eq!((twin.run_id(), twin.replayed()), (run.clone(), true));
    }
    assert_eq!(server.runs_of("a").await.len(), taken.len() + 1);
}

#[tokio::test]
async fn a_process_that_dies_on_a_full_disk_starts_again_when_there_is_room() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("SKIPPED: no tmpfs can be mounted here, so a full disk was NOT tested; run as root");
        return;
    };
    let bank = Bank::start().await;
    let mut server = Server::with(Options::default().data(&disk.path().join("data"))).await;
    server.push(&post("pay", &bank.url("/hold/pay"), "")).await;
    let run = server.trigger("pay", Some("k"), json!({})).await.run_id();
    bank.arrived("pay", 1).await;
    disk.fill(0);
    bank.release("pay", 5);
    server.trigger("pay", Some("other"), json!({})).await.refused(507, "store_full");
    server.kill9();
    // Without room for the index of the log it does not start, and says why.
    std::fs::remove_file(disk.path().join("data/semel.db-shm")).expect("the index");
    disk.fill(0);
    let output = server.serve_command(&server.path("second")).output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.contains("the disk is full")), (Some(1), true), "{said}");
    std::fs::remove_file(disk.ballast()).expect("the ballast");
    server.restart().await;
    // Its outcome had no room: nobody knows, and nobody sends it again.
    server.until(&run, "held").await;
    assert_eq!(bank.count("pay"), 1);
    assert!(server.trigger("pay", Some("k"), json!({})).await.replayed());
}
