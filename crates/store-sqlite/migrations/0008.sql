-- What triggers remember beside their instants, as JSON; null is nothing.
ALTER TABLE schedules ADD COLUMN state TEXT;

-- Changes of runs that flow triggers have yet to hear of.
CREATE TABLE changes (
    ws      INTEGER NOT NULL,
    run     BLOB NOT NULL,
    version INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    state   TEXT NOT NULL,
    heard   TEXT NOT NULL, -- JSON: who has
    PRIMARY KEY (ws, run, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX changes_at ON changes (at);
