-- A flow that is deleted gets a last revision that says so. Runs go on with the revision they were admitted with.
ALTER TABLE flows ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;
