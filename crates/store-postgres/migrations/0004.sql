-- Version 4. Files of runs. Their bytes are chunks, written before the row that names them; an upload is what was
-- begun, until a sweep has seen what became of it.
--
-- Processes of version 3 go on beside it: they delete a run without its files, and a later sweep finds these.

CREATE TABLE files (
    ws     text COLLATE "C" NOT NULL,
    run    uuid NOT NULL,
    path   text COLLATE "C" NOT NULL,
    file   uuid NOT NULL,
    bytes  bigint NOT NULL,
    chunks bigint NOT NULL,
    at     bigint NOT NULL,
    PRIMARY KEY (ws, run, path)
);

CREATE TABLE file_chunks (
    ws     text COLLATE "C" NOT NULL,
    run    uuid NOT NULL,
    file   uuid NOT NULL,
    number bigint NOT NULL,
    bytes  bytea NOT NULL,
    digest bigint NOT NULL,
    PRIMARY KEY (ws, run, file, number)
);

CREATE TABLE uploads (
    ws   text COLLATE "C" NOT NULL,
    run  uuid NOT NULL,
    file uuid NOT NULL,
    at   bigint NOT NULL,
    PRIMARY KEY (ws, run, file)
);
CREATE INDEX uploads_at ON uploads (at);
