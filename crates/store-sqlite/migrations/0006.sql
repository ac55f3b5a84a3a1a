-- Files of runs. Their bytes are chunks, written before the row that names them; an upload is what
-- was begun, until a sweep has seen what became of it.
CREATE TABLE files (
    ws     INTEGER NOT NULL,
    run    BLOB NOT NULL,
    path   TEXT NOT NULL,
    file   BLOB NOT NULL,
    bytes  INTEGER NOT NULL,
    chunks INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    PRIMARY KEY (ws, run, path)
) STRICT, WITHOUT ROWID;

-- With row numbers: large values of a table without them would make its search slow.
CREATE TABLE file_chunks (
    ws     INTEGER NOT NULL,
    run    BLOB NOT NULL,
    file   BLOB NOT NULL,
    number INTEGER NOT NULL,
    bytes  BLOB NOT NULL,
    digest INTEGER NOT NULL,
    PRIMARY KEY (ws, run, file, number)
) STRICT;

CREATE TABLE uploads (
    ws   INTEGER NOT NULL,
    run  BLOB NOT NULL,
    file BLOB NOT NULL,
    at   INTEGER NOT NULL,
    PRIMARY KEY (ws, run, file)
) STRICT, WITHOUT ROWID;
CREATE INDEX uploads_at ON uploads (at);
