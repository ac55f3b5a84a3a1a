-- Who waits in a lane stands in rows of its own: a long line costs no more than a short one.
CREATE TABLE lane_queue (
    ws   INTEGER NOT NULL,
    hash BLOB NOT NULL,
    seq  INTEGER NOT NULL,
    run  BLOB NOT NULL,
    PRIMARY KEY (ws, hash, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX lane_queue_run ON lane_queue (ws, hash, run);

INSERT INTO lane_queue (ws, hash, seq, run)
    SELECT l.ws, l.hash, q.key + 1, unhex(replace(q.value, '-', '')) FROM lanes l, json_each(l.lane, '$.queue') q;
UPDATE lanes SET lane = json_remove(json_set(lane, '$.waiting', json_array_length(lane, '$.queue')), '$.queue');
