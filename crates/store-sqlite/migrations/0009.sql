-- What the status of a run does not tell by itself, and what few runs have (JSON). Both NULL for most runs.
ALTER TABLE runs ADD COLUMN conclusion TEXT;
ALTER TABLE runs ADD COLUMN more TEXT;
