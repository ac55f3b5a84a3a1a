-- Version 6. What triggers remember beside their instants, as JSON; null is nothing. Processes of older versions leave it as it is.
ALTER TABLE schedules ADD COLUMN state text;

-- Changes of runs that flow triggers have yet to hear of.
CREATE TABLE changes (
    ws      text NOT NULL,
    run     uuid NOT NULL,
    version bigint NOT NULL,
    at      bigint NOT NULL,
    state   text NOT NULL,
    heard   text NOT NULL, -- JSON: who has
    PRIMARY KEY (ws, run, version)
);
CREATE INDEX changes_at ON changes (at);
