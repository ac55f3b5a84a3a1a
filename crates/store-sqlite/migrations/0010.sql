-- Attempts at steps that someone outside carries out. They stay until their run goes.
CREATE TABLE errands (
    ws       INTEGER NOT NULL,
    id       BLOB NOT NULL,
    run      BLOB NOT NULL,
    queue    TEXT NOT NULL,
    domain   TEXT NOT NULL,
    kind     TEXT NOT NULL,
    open     INTEGER NOT NULL,
    taken    INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    free_at  INTEGER NOT NULL,
    due      INTEGER,
    more     TEXT NOT NULL, -- JSON: what nobody looks for
    digest   INTEGER NOT NULL,
    PRIMARY KEY (ws, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX errands_run ON errands (ws, run);
CREATE INDEX errands_free ON errands (ws, queue, domain, priority DESC, free_at, id) WHERE open = 1 AND taken = 0;
CREATE INDEX errands_taken ON errands (ws, queue) WHERE open = 1 AND taken = 1;
CREATE INDEX errands_due ON errands (due) WHERE due IS NOT NULL;
