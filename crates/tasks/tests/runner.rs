//! One binary for all integration tests of the crate: linking is most of the build.

mod suite {
    pub mod conductor;
    pub mod files;
    pub mod http;
    pub mod http_answers;
    pub mod inline;
    #[cfg(feature = "kafka")]
    pub mod kafka;
    pub mod kv;
    pub mod namespace;
    pub mod schedule;
    pub mod scripts;
    pub mod server;
    pub mod shelf;
    pub mod signature;
}
