-- Version 8. Attempts at steps that someone outside carries out. They stay until their run goes.
-- Processes of version 7 go on beside it: they know no flow that makes such rows.

CREATE TABLE errands (
    ws       text COLLATE "C" NOT NULL,
    id       uuid NOT NULL,
    run      uuid NOT NULL,
    queue    text COLLATE "C" NOT NULL,
    domain   text COLLATE "C" NOT NULL,
    kind     text NOT NULL,
    open     boolean NOT NULL,
    taken    boolean NOT NULL,
    priority bigint NOT NULL,
    free_at  bigint NOT NULL,
    due      bigint,
    more     text NOT NULL, -- JSON: what nobody looks for
    digest   bigint NOT NULL,
    PRIMARY KEY (ws, id)
);
CREATE INDEX errands_run ON errands (ws, run);
CREATE INDEX errands_free ON errands (ws, queue, domain, priority DESC, free_at, id) WHERE open AND NOT taken;
CREATE INDEX errands_taken ON errands (ws, queue) WHERE open AND taken;
CREATE INDEX errands_due ON errands (due) WHERE due IS NOT NULL;
