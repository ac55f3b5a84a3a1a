-- A file made from a backup is another incarnation of the store: what came after the backup is lost.
ALTER TABLE meta ADD COLUMN is_backup INTEGER NOT NULL DEFAULT 0; -- such a file is restored, never served
ALTER TABLE meta ADD COLUMN backup_at INTEGER;
ALTER TABLE meta ADD COLUMN incarnation TEXT;
ALTER TABLE meta ADD COLUMN restored_at INTEGER;
