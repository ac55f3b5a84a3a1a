//! Files of a namespace at the Kestra door.

use crate::harness::*;
use axum::body::Body;
use serde_json::{Value as Json, json};
use std::io::{Cursor, Write};

const FILES: &str = "/api/v1/main/namespaces/company.team/files";

async fn upload(server: &Server, path: &str, file: &str, bytes: &[u8]) -> Answer {
    let mut body = format!("--b\r\nContent-Disposition: form-data; name=\"fileContent\"; filename=\"{file}\"\r\n\r\n")
        .into_bytes();
    body.extend_from_slice(bytes);
    body.extend(b"\r\n--b--\r\n");
    let request = request("POST", &format!("{FILES}?path={path}"));
    server.send(request.header("content-type", "multipart/form-data; boundary=b").body(Body::from(body)).unwrap()).await
}

async fn send(server: &Server, method: &str, rest: &str) -> Answer {
    server.send(request(method, &format!("{FILES}{rest}")).body(Body::empty()).unwrap()).await
}

async fn names(server: &Server) -> Vec<String> {
    let found = send(server, "GET", "/search?q=").await.expect(200).json;
    found.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_file_is_written_read_moved_and_deleted() {
    let server = Server::start();
    assert_eq!(upload(&server, "/sql/my%20query.sql", "x", b"select 1").await.expect(200).text, "");
    assert_eq!(send(&server, "GET", "?path=sql/my%20query.sql").await.expect(200).text, "select 1");
    upload(&server, "/sql/my%20query.sql", "x", b"select 2").await.expect(200);
    assert_eq!(send(&server, "GET", "?path=/sql/my%20query.sql").await.expect(200).text, "select 2");
    upload(&server, "__init__.py", "x", b"").await.expect(200);

    let root = send(&server, "GET", "/directory").await.expect(200).json;
    let shown: Vec<(&str, &str)> = root
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["type"].as_str().unwrap(), one["fileName"].as_str().unwrap()))
        .collect();
    assert_eq!(shown, [("Directory", "sql"), ("File", "__init__.py")]);
    let inside = send(&server, "GET", "/directory?path=/sql").await.expect(200).json;
    assert_eq!((&inside[0]["fileName"], &inside[0]["size"]), (&json!("my query.sql"), &json!(8)));
    assert_eq!(send(&server, "GET", "/stats?path=/sql").await.expect(200).json["type"], "Directory");
    assert_eq!(send(&server, "GET", "/stats?path=/__init__.py").await.expect(200).json["size"], 0);

    send(&server, "PUT", "?from=/sql&to=/queries/sql").await.expect(200);
    assert_eq!(names(&server).await, ["/__init__.py", "/queries/sql/my query.sql"]);
    send(&server, "DELETE", "?path=queries").await.expect(200);
    send(&server, "DELETE", "?path=queries").await.expect(200);
    assert_eq!(names(&server).await, ["/__init__.py"]);
    let missing = send(&server, "GET", "?path=queries/x").await.refused(404, "file_unknown");
    assert_eq!(missing.json["message"], "Not Found: File not found: /queries/x");
}

#[tokio::test]
async fn an_archive_is_unpacked_and_made() {
    let server = Server::start();
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in [("a.txt", "one"), ("b/c.txt", "two")] {
        archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    let bytes = archive.finish().unwrap().into_inner();
    upload(&server, "/", "all.ZIP", &bytes).await.expect(200);
    assert_eq!(names(&server).await, ["/a.txt", "/b/c.txt"]);
    let out = send(&server, "GET", "/export").await.expect(200);
    assert!(out.text.starts_with("PK"), "{}", out.text);
    upload(&server, "/", "all.zip", b"no archive").await.refused(422, "illegal_argument");
}

#[tokio::test]
async fn what_names_no_file_is_refused() {
    let server = Server::start();
    upload(&server, "/../x", "x", b"a").await.refused(422, "illegal_argument");
    upload(&server, "/", "x", b"a").await.refused(422, "illegal_argument");
    let flows = upload(&server, "/_flows/a.yml", "x", b"a").await.refused(422, "illegal_argument");
    assert_eq!(flows.json["message"], "Illegal argument: Forbidden path: /_flows/a.yml");
    send(&server, "GET", "").await.refused(422, "query_invalid");
    send(&server, "PUT", "?from=/x&to=/y").await.refused(404, "file_unknown");
    upload(&server, "/x", "x", b"a").await.expect(200);
    send(&server, "PUT", "?from=/x&to=/x/y").await.refused(422, "illegal_argument");
}

#[tokio::test]
async fn an_input_begins_with_a_file_of_the_namespace() {
    let server = Server::start();
    let flow = "id: reads\nnamespace: company.team\ninputs:\n  - {id: doc, type: FILE, defaults: 'nsfile:///doc.txt'}\n\
        tasks:\n  - {id: say, type: debug.Return, format: '{{ read(inputs.doc) }} at {{ inputs.doc }}'}\n";
    server.push(flow).await.expect(200);
    let create = async || {
        let request = request("POST", "/api/v1/main/executions/company.team/reads?wait=true");
        server.send(request.body(Body::empty()).unwrap()).await
    };
    create().await.refused(422, "input_invalid");
    upload(&server, "doc.txt", "x", b"hello").await.expect(200);
    let made = create().await.expect(200).json;
    let value: &Json = &made["taskRunList"][0]["outputs"]["value"];
    assert_eq!(value, "hello at kestra:///company/team/_files/doc.txt");
}
