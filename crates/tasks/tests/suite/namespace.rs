//! Tasks on files of a namespace and on keys, and those that remove what is old.

use super::server::verdict;
use super::shelf::Bench;
use semel_core::Millis;
use semel_core::run::KestraState;
use serde_json::{Value as Json, json};

async fn upload(bench: &Bench, config: Json) -> Json {
    bench.done("namespace.UploadFiles", "upload", config).await["files"].clone()
}

#[tokio::test]
async fn files_are_sent_to_a_namespace_and_fetched_from_it() {
    let bench = Bench::new();
    let uri = bench.write("write", "one").await;
    let sent = upload(&bench, json!({"namespace": "a.b", "filesMap": {"x y.txt": uri}, "destination": "/in/"})).await;
    assert_eq!(sent, json!({"in/x y.txt": "kestra:///a/b/_files/in/x%20y.txt"}));
    let fetched = bench.done("namespace.DownloadFiles", "get", json!({"namespace": "a.b", "files": "in/*.txt"})).await;
    assert_eq!(bench.text(&fetched["files"]["/in/x y.txt"]), "one");
    let other = bench.done("namespace.DownloadFiles", "get", json!({"namespace": "a", "files": "**"})).await;
    assert_eq!(other, json!({"files": {}}));
    let gone = bench.done("namespace.DeleteFiles", "delete", json!({"namespace": "a.b", "files": ["**.txt"]})).await;
    assert_eq!(gone, json!({"files": ["/in/x y.txt"]}));
    let after = bench.done("namespace.DownloadFiles", "get", json!({"namespace": "a.b", "files": "**"})).await;
    assert_eq!(after, json!({"files": {}}));
}

#[tokio::test]
async fn a_name_that_is_taken_is_written_over_passed_by_or_an_error() {
    let bench = Bench::new();
    let (one, two) = (bench.write("one", "one").await, bench.write("two", "two").await);
    let config = |uri: &str, conflict: &str| json!({"namespace": "shop", "filesMap": {"f": uri}, "conflict": conflict});
    let now = async || {
        bench.text(&json!(bench.done("namespace.DownloadFiles", "get", json!({"namespace": "shop", "files": "f"})).await["files"]["/f"]))
    };
    upload(&bench, config(&one, "ERROR")).await;
    assert_eq!(bench.verdict("namespace.UploadFiles", config(&two, "ERROR")).await, "clean:file_exists");
    assert_eq!(upload(&bench, config(&two, "SKIP")).await, json!({}));
    assert_eq!(now().await, "one");
    upload(&bench, config(&two, "OVERWRITE")).await;
    assert_eq!(now().await, "two");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused() {
    let bench = Bench::new();
    for (type_name, config) in [
        ("namespace.UploadFiles", json!({"namespace": "shop"})),
        ("namespace.UploadFiles", json!({"namespace": "shop", "filesMap": {"../x": "kestra:///a"}})),
        ("namespace.UploadFiles", json!({"namespace": "shop", "files": ["*"], "conflict": "MAYBE"})),
        ("namespace.DownloadFiles", json!({"files": "*"})),
        ("execution.PurgeExecutions", json!({"namespace": "shop"})),
        ("execution.PurgeExecutions", json!({"flowId": "order", "endDate": "2026-01-01T00:00:00Z"})),
        ("log.PurgeLogs", json!({"endDate": "soon"})),
        ("kv.PurgeKV", json!({"namespaces": ["a"], "namespacePattern": "b*"})),
    ] {
        assert_eq!(bench.verdict(type_name, config.clone()).await, "clean:bad_config", "{type_name} {config}");
    }
    let regex = json!({"namespace": "shop", "files": "regex:.*"});
    assert_eq!(bench.verdict("namespace.DeleteFiles", regex).await, "clean:not_built");
}

#[tokio::test]
async fn a_working_directory_begins_with_files_of_the_namespace() {
    let bench = Bench::new();
    let uri = bench.write("write", "one").await;
    upload(&bench, json!({"namespace": "shop", "filesMap": {"a/x.txt": uri, "b/x.txt": uri}})).await;
    upload(&bench, json!({"namespace": "eu", "filesMap": {"a/x.txt": uri}})).await;
    let names = async |given: Json| {
        let config = json!({"namespaceFiles": given, "outputs": ["**"]});
        let mut request = bench.request("storage.LocalFiles", "dir", config);
        // Each in a directory of its own.
        request.home.path = format!("{}/{}", request.home.path, given.to_string().len());
        match bench.perform(request).await {
            semel_tasks::Outcome::Done { output } => {
                output["uris"].as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
            }
            other => verdict(&other),
        }
    };
    assert_eq!(names(json!({})).await, "a/x.txt b/x.txt");
    assert_eq!(names(json!({"enabled": false})).await, "");
    assert_eq!(names(json!({"include": "a/*"})).await, "a/x.txt");
    assert_eq!(names(json!({"exclude": ["a/*"]})).await, "b/x.txt");
    let both = json!({"namespaces": ["shop", "eu"], "folderPerNamespace": true, "include": "a/x.txt"});
    assert_eq!(names(both).await, "eu/a/x.txt shop/a/x.txt");
    let twice = json!({"namespaces": ["shop", "eu"], "ifExists": "FAIL", "include": "a/x.txt"});
    assert_eq!(names(twice).await, "clean:file_exists");
}

#[tokio::test]
async fn old_runs_are_named_by_all_that_is_said() {
    let bench = Bench::new();
    let config = json!({
        "namespace": "shop", "startDate": "2026-01-01T00:00:00Z", "endDate": "2026-02-01T00:00:00Z",
        "states": ["SUCCESS"], "purgeLog": false,
    });
    let output = bench.done("execution.PurgeExecutions", "purge", config).await;
    assert_eq!(output, json!({"executionsCount": 3, "logsCount": 2, "storagesCount": 1, "metricsCount": 0}));
    let asked = bench.shelf.purged.lock().unwrap().take().unwrap();
    assert_eq!((asked.runs, asked.logs, asked.files), (true, false, true));
    assert_eq!((asked.of.namespace.as_str(), asked.of.states), ("shop", vec![KestraState::Success]));
    assert_eq!(asked.of.to, Millis::parse_rfc3339("2026-02-01T00:00:00Z"));
    bench
        .done(
            "execution.PurgeExecutions",
            "purge",
            json!({"purgeExecution": false, "purgeLog": false, "purgeStorage": false}),
        )
        .await;
    assert!(bench.shelf.purged.lock().unwrap().is_none(), "metrics alone are none");
    let count = bench.done("log.PurgeLogs", "purge", json!({"endDate": "2026-02-01T00:00:00Z"})).await;
    assert_eq!(count, json!({"count": 2}));
    let asked = bench.shelf.purged.lock().unwrap().take().unwrap();
    assert_eq!((asked.runs, asked.logs, asked.files), (false, true, false));
}

#[tokio::test]
async fn keys_are_listed_and_removed() {
    let bench = Bench::new();
    assert_eq!(bench.done("kv.GetKeys", "keys", json!({})).await, json!({"keys": ["lives"]}));
    assert_eq!(bench.done("kv.GetKeys", "keys", json!({"prefix": "x"})).await, json!({"keys": []}));
    let size = async |config: Json| bench.done("kv.PurgeKV", "purge", config).await["size"].clone();
    assert_eq!(size(json!({"namespaces": ["shop"], "includeChildNamespaces": false})).await, 1);
    assert_eq!(size(json!({"namespaces": "shop"})).await, 1);
    assert_eq!(size(json!({"namespacePattern": "sho*", "keyPattern": "l*", "expiredOnly": false})).await, 3);
    assert_eq!(size(json!({})).await, 2);
}

#[tokio::test]
async fn a_working_directory_begins_with_what_the_one_before_has_kept() {
    let bench = Bench::new();
    let cache = |ttl: &str| json!({"patterns": ["**.txt"], "ttl": ttl, "of": "dir"});
    let step = async |run: &str, config: Json| {
        let mut request = bench.request("storage.LocalFiles", "step", config);
        request.home.path = request.home.path.replace("00ff", run);
        match bench.perform(request).await {
            semel_tasks::Outcome::Done { output } => output["uris"].clone(),
            other => panic!("{other:?}"),
        }
    };
    let there = async |run: &str, ttl: &str| step(run, json!({"cache": cache(ttl), "outputs": ["**"]})).await;
    assert_eq!(there("one", "PT1M").await, json!({}), "nothing is kept yet");
    let large = "x".repeat(300_000);
    step("one", json!({"inputs": {"a/b.txt": large, "c.txt": "", "d.csv": "1"}})).await;
    step("one", json!({"keep": cache("PT1M")})).await;
    let found = there("two", "PT1M").await;
    assert_eq!(found.as_object().unwrap().keys().collect::<Vec<_>>(), ["a/b.txt", "c.txt"]);
    assert_eq!(bench.text(&found["a/b.txt"]), large);
    step("three", json!({"keep": cache("PT1M")})).await;
    assert_eq!(there("four", "PT1M").await.as_object().unwrap().len(), 2, "nothing is no reason to forget");
    bench.shelf.age_ms.store(60_001, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(there("five", "PT1M").await, json!({}), "its time is over");
    assert_eq!(there("six", "PT2M").await.as_object().unwrap().len(), 2);
}
