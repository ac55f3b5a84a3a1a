-- What the tables will look like when they are large. Every index begins with the workspace, and
-- without figures SQLite takes that for selective: it then walks all rows of the workspace, as
-- long as their order suits it, instead of the index that finds the few. The figures are only
-- hints; the plans they lead to are tested.
ANALYZE sqlite_schema;
DELETE FROM sqlite_stat1;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('claims', 'claims', '1000000 1000000 1'),
    ('claims', 'claims_run', '1000000 1000000 1 1'),
    ('runs', 'runs_id', '1000000 1000000 1'),
    ('runs', 'runs_flow', '1000000 1000000 100000 10000 1'),
    ('runs', 'runs_status', '10000 10000 1000 1'),
    ('runs', 'runs_correlation', '100000 100000 10'),
    ('runs', 'runs_key', '1000000 1000000 2'),
    ('runs', 'runs_parent', '100000 100000 10');
ANALYZE sqlite_schema;
