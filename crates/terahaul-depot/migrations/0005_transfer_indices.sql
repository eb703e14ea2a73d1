-- Lists begin anywhere, of one owner's transfers or of all.
DROP INDEX transfers_by_owner;
DROP INDEX transfers_by_creation;
CREATE INDEX transfers_by_owner ON transfers (owner, created, id);
CREATE INDEX transfers_by_creation ON transfers (created, id);
-- Each append sums these, and reads no row for it.
CREATE INDEX transfers_by_size ON transfers (owner, bytes, failed_bytes, manifest_bytes);
CREATE INDEX transfers_open ON transfers (state) WHERE state = 'open';
CREATE INDEX transfers_to_resume ON transfers (owner, resume_key, created, id)
    WHERE resume_key IS NOT NULL AND state <> 'complete';
