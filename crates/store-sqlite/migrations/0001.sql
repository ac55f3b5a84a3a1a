-- Version 1.
--
-- Every unique key starts with the workspace (`ws`, a small number; see `workspaces`). Ids and
-- hashes are 16-byte blobs. Large rows live in rowid tables (an index B-tree with large rows
-- fans out badly); small ones in WITHOUT ROWID tables. Each index on the admission path costs a
-- page per admission, so there is one only where a query would otherwise scan: the partial ones
-- leave out what is common (the completed run, the run that is its own root).

CREATE TABLE meta (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    clock_ms      INTEGER NOT NULL, -- the latest instant given out: time never goes back
    last_decision INTEGER NOT NULL, -- numbers given so far, kept when the rows are swept
    last_inbox    INTEGER NOT NULL
) STRICT;
INSERT INTO meta VALUES (1, 0, 0, 0);

-- A name gets its number when it is first written; `created_at` is set when the workspace is made.
CREATE TABLE workspaces (
    ws         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    created_at INTEGER
) STRICT;

-- Long texts that many rows share: policies and key scopes.
CREATE TABLE words (
    num  INTEGER PRIMARY KEY,
    word TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE claims (
    ws           INTEGER NOT NULL,
    hash         BLOB NOT NULL,
    key          TEXT,
    scope        INTEGER NOT NULL, -- words.num
    run          BLOB NOT NULL,
    fingerprint  BLOB NOT NULL,
    state        TEXT NOT NULL,
    generation   INTEGER NOT NULL,
    first_seen   INTEGER NOT NULL,
    completed_at INTEGER,
    keep         TEXT NOT NULL, -- the window: forever, while_live, first_seen:ms, completed:ms
    expire_live  INTEGER NOT NULL,
    forget_at    INTEGER, -- the end of the tombstone; NULL while the claim cannot expire
    odd          INTEGER NOT NULL, -- the hash is not that of scope and key (a split)
    PRIMARY KEY (ws, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_run ON claims (ws, run);
-- A plain claim is found by the hash of its key under each scope there is; only odd ones need this.
CREATE INDEX claims_odd ON claims (ws, key) WHERE odd = 1;
CREATE INDEX claims_forget ON claims (forget_at) WHERE forget_at IS NOT NULL;

CREATE TABLE lanes (
    ws   INTEGER NOT NULL,
    hash BLOB NOT NULL,
    lane TEXT NOT NULL, -- JSON
    PRIMARY KEY (ws, hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    num            INTEGER PRIMARY KEY,
    ws             INTEGER NOT NULL,
    id             BLOB NOT NULL,
    namespace      TEXT NOT NULL,
    flow_id        TEXT NOT NULL,
    revision       INTEGER NOT NULL,
    status         TEXT NOT NULL,
    epoch          INTEGER NOT NULL,
    version        INTEGER NOT NULL,
    active         INTEGER NOT NULL,
    open_intents   INTEGER NOT NULL,
    open_doubts    INTEGER NOT NULL,
    logical        BLOB, -- NULL: the run itself; so too root and correlation_id
    take           INTEGER NOT NULL,
    generation     INTEGER NOT NULL,
    claim          BLOB,
    lane           BLOB,
    lane_limit     INTEGER,
    parent         BLOB,
    parent_step    TEXT,
    parent_waits   INTEGER,
    root           BLOB,
    depth          INTEGER NOT NULL,
    correlation_id TEXT,
    door           TEXT NOT NULL,
    key            TEXT,
    created_at     INTEGER NOT NULL,
    started_at     INTEGER,
    ended_at       INTEGER,
    updated_at     INTEGER NOT NULL,
    warned         INTEGER NOT NULL,
    erased         INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX runs_id ON runs (ws, id);
CREATE INDEX runs_active ON runs (id) WHERE active = 1;
CREATE INDEX runs_flow ON runs (ws, namespace, flow_id, id);
-- Completed runs are most of all runs, so a list of them needs no index.
CREATE INDEX runs_status ON runs (ws, status, id) WHERE status <> 'completed';
CREATE INDEX runs_correlation ON runs (ws, correlation_id) WHERE correlation_id IS NOT NULL;
CREATE INDEX runs_key ON runs (ws, key) WHERE key IS NOT NULL;
CREATE INDEX runs_parent ON runs (ws, parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;

-- The user's values, apart from the head that every transition rewrites.
CREATE TABLE run_values (
    num     INTEGER PRIMARY KEY, -- runs.num
    inputs  TEXT,
    trigger TEXT,
    outputs TEXT,
    failure TEXT,
    labels  TEXT NOT NULL, -- JSON, as given; run_labels is the index over it
    digest  INTEGER NOT NULL
) STRICT;

CREATE TABLE run_labels (
    ws    INTEGER NOT NULL,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    run   BLOB NOT NULL,
    PRIMARY KEY (ws, name, value, run)
) STRICT, WITHOUT ROWID;

CREATE TABLE journal (
    ws     INTEGER NOT NULL,
    run    BLOB NOT NULL,
    seq    INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    format INTEGER NOT NULL,
    events BLOB NOT NULL,
    vals   BLOB,
    digest INTEGER NOT NULL,
    PRIMARY KEY (ws, run, seq)
) STRICT;

CREATE TABLE snapshots (
    ws      INTEGER NOT NULL,
    run     BLOB NOT NULL,
    version INTEGER NOT NULL,
    format  INTEGER NOT NULL,
    state   BLOB NOT NULL,
    digest  INTEGER NOT NULL,
    PRIMARY KEY (ws, run)
) STRICT;

CREATE TABLE timers (
    ws    INTEGER NOT NULL,
    run   BLOB NOT NULL,
    timer INTEGER NOT NULL,
    due   INTEGER NOT NULL,
    PRIMARY KEY (ws, run, timer)
) STRICT, WITHOUT ROWID;
CREATE INDEX timers_due ON timers (due);

CREATE TABLE effects (
    ws         INTEGER NOT NULL,
    run        BLOB NOT NULL,
    step_id    BLOB NOT NULL,
    step       TEXT NOT NULL,
    class      TEXT NOT NULL,
    state      TEXT NOT NULL,
    attempt    INTEGER NOT NULL,
    sends      INTEGER NOT NULL,
    out_key    TEXT NOT NULL,
    safe_until INTEGER,
    at         INTEGER NOT NULL,
    PRIMARY KEY (ws, run, step_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE logs (
    ws      INTEGER NOT NULL,
    run     BLOB NOT NULL,
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    level   TEXT NOT NULL,
    step    TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (ws, run, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE inbox (
    seq     INTEGER PRIMARY KEY,
    ws      INTEGER NOT NULL,
    run     BLOB NOT NULL,
    message TEXT NOT NULL -- JSON
) STRICT;
CREATE INDEX inbox_run ON inbox (ws, run);

CREATE TABLE decisions (
    seq              INTEGER PRIMARY KEY,
    ws               INTEGER NOT NULL,
    at               INTEGER NOT NULL,
    door             TEXT NOT NULL,
    occurrence       TEXT NOT NULL,
    namespace        TEXT NOT NULL,
    flow_id          TEXT NOT NULL,
    scope            INTEGER, -- words.num
    key              TEXT,
    key_source       TEXT,
    claim            BLOB,
    fingerprint      BLOB NOT NULL,
    policy           INTEGER NOT NULL, -- words.num
    prior            TEXT NOT NULL,
    prior_run        BLOB,
    prior_generation INTEGER NOT NULL,
    same_payload     INTEGER NOT NULL,
    decision         TEXT NOT NULL,
    reason           TEXT NOT NULL,
    run              BLOB,
    generation       INTEGER NOT NULL,
    caller           TEXT NOT NULL,
    rules_version    INTEGER NOT NULL,
    odd              INTEGER NOT NULL -- as in claims
) STRICT;
CREATE INDEX decisions_run ON decisions (ws, run) WHERE run IS NOT NULL;
CREATE INDEX decisions_claim ON decisions (ws, claim) WHERE claim IS NOT NULL;
CREATE INDEX decisions_odd ON decisions (ws, key) WHERE odd = 1;

CREATE TABLE kv (
    ws         INTEGER NOT NULL,
    namespace  TEXT NOT NULL,
    key        TEXT NOT NULL,
    value      TEXT NOT NULL, -- JSON
    kv_type    TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (ws, namespace, key)
) STRICT;
CREATE INDEX kv_expiry ON kv (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE flows (
    ws         INTEGER NOT NULL,
    namespace  TEXT NOT NULL,
    id         TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    source     TEXT NOT NULL,
    ir         TEXT NOT NULL,
    disabled   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (ws, namespace, id, revision)
) STRICT;
CREATE INDEX flows_id ON flows (ws, id);

CREATE TABLE schedules (
    ws         INTEGER NOT NULL,
    namespace  TEXT NOT NULL,
    flow_id    TEXT NOT NULL,
    trigger    TEXT NOT NULL,
    next_due   INTEGER,
    last_fired INTEGER,
    PRIMARY KEY (ws, namespace, flow_id, trigger)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (next_due) WHERE next_due IS NOT NULL;

CREATE TABLE secrets (
    ws         INTEGER NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    key_id     TEXT NOT NULL,
    nonce      BLOB NOT NULL,
    ciphertext BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    retired    INTEGER NOT NULL,
    PRIMARY KEY (ws, name, version)
) STRICT;

CREATE TABLE tokens (
    id          TEXT PRIMARY KEY,
    ws          INTEGER NOT NULL,
    name        TEXT NOT NULL,
    role        TEXT NOT NULL,
    secret_hash BLOB NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    revoked_at  INTEGER
) STRICT, WITHOUT ROWID;
