-- Words of tasks: where a search over tasks looks. They stay until their run goes.
CREATE TABLE task_words (
    ws   INTEGER NOT NULL,
    run  BLOB NOT NULL,
    kind TEXT NOT NULL,
    word TEXT NOT NULL,
    PRIMARY KEY (ws, run, kind, word)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_words_found ON task_words (ws, kind, word, run);

-- What is there already tells of nothing: it is looked through.
INSERT INTO task_words (ws, run, kind, word) SELECT ws, id, 'untold', '' FROM runs WHERE namespace = 'conductor';

-- Hints, as in 0003.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('task_words', 'task_words', '10000000 10000000 10 3 1'),
    ('task_words', 'task_words_found', '10000000 10000000 1000000 1000 1');
ANALYZE sqlite_schema;
