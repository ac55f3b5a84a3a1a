-- What a run came to has rows of its own. It is written once, at the end of the run, and what the run
-- was given (often much larger) need not be read and written again for it. Older results stay in
-- run_values: a row here, if there is one, comes first.
CREATE TABLE run_results (
    num     INTEGER PRIMARY KEY, -- runs.num
    outputs TEXT,
    failure TEXT,
    digest  INTEGER NOT NULL
) STRICT;
