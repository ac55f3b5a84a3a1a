-- Version 5. A flow that is deleted gets a last revision that says so. Processes of version 4 go on beside it; they see the
-- flow as it was.

ALTER TABLE flows ADD COLUMN deleted boolean NOT NULL DEFAULT false;
