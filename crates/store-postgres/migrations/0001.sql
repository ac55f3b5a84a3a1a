-- Version 1. Run inside the schema that the store was given, under a lock that only migrations take.
--
-- Every unique key starts with the workspace (`ws`). Ids of runs and hashes are 16 bytes, for which PostgreSQL has the
-- type uuid. Text whose order matters is ordered by its bytes ("C"), as the other stores have it. Each index on the
-- admission path costs a page per admission, so there is one only where a query would otherwise scan; the partial ones
-- leave out what is common.

-- One row per writer of a process. The row is raised by one in every transaction of that writer: it says whether a
-- commit whose answer was lost has happened, keeps a late one from happening after all, and shows a database that is
-- behind what it has acknowledged.
CREATE TABLE batches (
    node     uuid NOT NULL,
    writer   bigint NOT NULL,
    counter  bigint NOT NULL,
    clock_ms bigint NOT NULL, -- the latest instant given out: time never goes back
    PRIMARY KEY (node, writer)
) WITH (fillfactor = 50);

-- The processes that have the store open.
CREATE TABLE nodes (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    started_at bigint NOT NULL,
    seen_at    bigint NOT NULL
);

CREATE TABLE meta (
    id          bigint PRIMARY KEY CHECK (id = 1),
    clock_ms    bigint NOT NULL, -- as in batches, of rows that have been removed
    incarnation text,
    backup_at   bigint,
    restored_at bigint
);
INSERT INTO meta (id, clock_ms) VALUES (1, 0);

-- Ends a transaction that has lost a race, inside the flight of statements that would commit it.
CREATE FUNCTION must(holds boolean, code text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF holds IS NOT TRUE THEN
        RAISE EXCEPTION 'a guard of the store failed' USING ERRCODE = code;
    END IF;
    RETURN true;
END $$;

CREATE TABLE workspaces (
    ws         text COLLATE "C" PRIMARY KEY,
    created_at bigint NOT NULL
);

CREATE TABLE claims (
    ws           text COLLATE "C" NOT NULL,
    hash         uuid NOT NULL,
    key          text COLLATE "C",
    scope        text COLLATE "C" NOT NULL,
    run          uuid NOT NULL,
    fingerprint  bytea NOT NULL,
    state        text NOT NULL,
    generation   bigint NOT NULL,
    first_seen   bigint NOT NULL,
    completed_at bigint,
    keep         text NOT NULL, -- the window: forever, while_live, first_seen:ms, completed:ms
    expire_live  boolean NOT NULL,
    forget_at    bigint, -- the end of the tombstone; NULL while the claim cannot expire
    PRIMARY KEY (ws, hash)
);
CREATE INDEX claims_run ON claims (ws, run);
CREATE INDEX claims_key ON claims (ws, key) WHERE key IS NOT NULL;
CREATE INDEX claims_forget ON claims (forget_at) WHERE forget_at IS NOT NULL;

CREATE TABLE lanes (
    ws   text COLLATE "C" NOT NULL,
    hash uuid NOT NULL,
    lane text NOT NULL, -- JSON
    PRIMARY KEY (ws, hash)
);

-- Who waits in a lane. Written only by whoever has the row of the lane.
CREATE TABLE lane_queue (
    ws   text COLLATE "C" NOT NULL,
    hash uuid NOT NULL,
    seq  bigint NOT NULL,
    run  uuid NOT NULL,
    PRIMARY KEY (ws, hash, seq)
);
CREATE UNIQUE INDEX lane_queue_run ON lane_queue (ws, hash, run);

CREATE TABLE runs (
    ws             text COLLATE "C" NOT NULL,
    id             uuid NOT NULL,
    namespace      text COLLATE "C" NOT NULL,
    flow_id        text COLLATE "C" NOT NULL,
    revision       bigint NOT NULL,
    status         text NOT NULL,
    epoch          bigint NOT NULL,
    version        bigint NOT NULL,
    active         boolean NOT NULL,
    open_intents   bigint NOT NULL,
    open_doubts    bigint NOT NULL,
    logical        uuid NOT NULL,
    take           bigint NOT NULL,
    generation     bigint NOT NULL,
    claim          uuid,
    lane           uuid,
    lane_limit     bigint,
    parent         uuid,
    parent_step    text,
    parent_waits   boolean,
    root           uuid NOT NULL,
    depth          bigint NOT NULL,
    correlation_id text COLLATE "C", -- NULL: the id of the run itself
    door           text NOT NULL,
    key            text COLLATE "C",
    created_at     bigint NOT NULL,
    started_at     bigint,
    ended_at       bigint,
    updated_at     bigint NOT NULL,
    warned         boolean NOT NULL,
    erased         boolean NOT NULL,
    PRIMARY KEY (ws, id)
) WITH (fillfactor = 80);
CREATE INDEX runs_active ON runs (id) WHERE active;
CREATE INDEX runs_flow ON runs (ws, namespace, flow_id, id);
-- Completed runs are most of all runs, so a list of them needs no index.
CREATE INDEX runs_status ON runs (ws, status, id) WHERE status <> 'completed';
CREATE INDEX runs_correlation ON runs (ws, correlation_id) WHERE correlation_id IS NOT NULL;
CREATE INDEX runs_key ON runs (ws, key) WHERE key IS NOT NULL;
CREATE INDEX runs_parent ON runs (ws, parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended_at) WHERE ended_at IS NOT NULL;

-- The user's values, apart from the head that every transition rewrites.
CREATE TABLE run_values (
    ws      text COLLATE "C" NOT NULL,
    run     uuid NOT NULL,
    inputs  text,
    trigger text,
    outputs text,
    failure text,
    labels  text NOT NULL, -- JSON, as given; run_labels is the index over it
    PRIMARY KEY (ws, run)
);

CREATE TABLE run_labels (
    ws    text COLLATE "C" NOT NULL,
    name  text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    run   uuid NOT NULL,
    PRIMARY KEY (ws, name, value, run)
);
CREATE INDEX run_labels_run ON run_labels (ws, run);

CREATE TABLE journal (
    ws         text COLLATE "C" NOT NULL,
    run        uuid NOT NULL,
    seq        bigint NOT NULL,
    at         bigint NOT NULL,
    format     bigint NOT NULL,
    events     bytea NOT NULL,
    vals       bytea,
    digest     bigint NOT NULL, -- of everything but the values,
    val_digest bigint,          -- which erasure removes
    PRIMARY KEY (ws, run, seq)
);

CREATE TABLE snapshots (
    ws      text COLLATE "C" NOT NULL,
    run     uuid NOT NULL,
    version bigint NOT NULL,
    format  bigint NOT NULL,
    state   bytea NOT NULL,
    digest  bigint NOT NULL,
    PRIMARY KEY (ws, run)
);

CREATE TABLE timers (
    ws    text COLLATE "C" NOT NULL,
    run   uuid NOT NULL,
    timer bigint NOT NULL,
    due   bigint NOT NULL,
    PRIMARY KEY (ws, run, timer)
);
CREATE INDEX timers_due ON timers (due);

CREATE TABLE effects (
    ws         text COLLATE "C" NOT NULL,
    run        uuid NOT NULL,
    step_id    uuid NOT NULL,
    step       text NOT NULL,
    class      text NOT NULL,
    state      text NOT NULL,
    attempt    bigint NOT NULL,
    sends      bigint NOT NULL,
    out_key    text NOT NULL,
    safe_until bigint,
    at         bigint NOT NULL,
    PRIMARY KEY (ws, run, step_id)
);

CREATE TABLE logs (
    ws      text COLLATE "C" NOT NULL,
    run     uuid NOT NULL,
    seq     bigint NOT NULL,
    at      bigint NOT NULL,
    level   text NOT NULL,
    step    text NOT NULL,
    message text NOT NULL,
    PRIMARY KEY (ws, run, seq)
);

-- Written only by whoever has the head of the run.
CREATE TABLE inbox (
    seq     bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    ws      text COLLATE "C" NOT NULL,
    run     uuid NOT NULL,
    message text NOT NULL -- JSON
);
CREATE INDEX inbox_run ON inbox (ws, run);

CREATE TABLE decisions (
    seq              bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    ws               text COLLATE "C" NOT NULL,
    at               bigint NOT NULL,
    door             text NOT NULL,
    occurrence       text NOT NULL,
    namespace        text COLLATE "C" NOT NULL,
    flow_id          text COLLATE "C" NOT NULL,
    scope            text,
    key              text COLLATE "C",
    key_source       text,
    claim            uuid,
    fingerprint      bytea NOT NULL,
    policy           text NOT NULL, -- JSON
    prior            text NOT NULL,
    prior_run        uuid,
    prior_generation bigint NOT NULL,
    same_payload     boolean NOT NULL,
    decision         text NOT NULL,
    reason           text NOT NULL,
    run              uuid,
    generation       bigint NOT NULL,
    caller           text NOT NULL,
    rules_version    bigint NOT NULL
);
CREATE INDEX decisions_run ON decisions (ws, run) WHERE run IS NOT NULL;
CREATE INDEX decisions_claim ON decisions (ws, claim) WHERE claim IS NOT NULL;
CREATE INDEX decisions_key ON decisions (ws, key) WHERE key IS NOT NULL;

CREATE TABLE kv (
    ws         text COLLATE "C" NOT NULL,
    namespace  text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    value      text NOT NULL, -- JSON
    kv_type    text NOT NULL,
    revision   bigint NOT NULL,
    updated_at bigint NOT NULL,
    expires_at bigint,
    PRIMARY KEY (ws, namespace, key)
);
CREATE INDEX kv_expiry ON kv (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE flows (
    ws         text COLLATE "C" NOT NULL,
    namespace  text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    revision   bigint NOT NULL,
    source     text NOT NULL,
    ir         text NOT NULL,
    disabled   boolean NOT NULL,
    created_at bigint NOT NULL,
    created_by text NOT NULL,
    PRIMARY KEY (ws, namespace, id, revision)
);
CREATE INDEX flows_id ON flows (ws, id);

CREATE TABLE schedules (
    ws         text COLLATE "C" NOT NULL,
    namespace  text COLLATE "C" NOT NULL,
    flow_id    text COLLATE "C" NOT NULL,
    trigger    text COLLATE "C" NOT NULL,
    next_due   bigint,
    last_fired bigint,
    PRIMARY KEY (ws, namespace, flow_id, trigger)
);
CREATE INDEX schedules_due ON schedules (next_due) WHERE next_due IS NOT NULL;

CREATE TABLE secrets (
    ws         text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    key_id     text NOT NULL,
    nonce      bytea NOT NULL,
    ciphertext bytea NOT NULL,
    created_at bigint NOT NULL,
    retired    boolean NOT NULL,
    PRIMARY KEY (ws, name, version)
);

CREATE TABLE tokens (
    id          text COLLATE "C" PRIMARY KEY,
    ws          text COLLATE "C" NOT NULL,
    name        text NOT NULL,
    role        text NOT NULL,
    secret_hash bytea NOT NULL,
    created_at  bigint NOT NULL,
    expires_at  bigint,
    revoked_at  bigint
);
CREATE INDEX tokens_ws ON tokens (ws, id);
