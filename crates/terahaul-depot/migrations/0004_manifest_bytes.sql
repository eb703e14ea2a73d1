-- What a transfer's manifest takes here, which counts against quotas: its batches, and a hash for each entry.
ALTER TABLE transfers ADD COLUMN manifest_bytes BIGINT NOT NULL DEFAULT 0;
UPDATE transfers SET manifest_bytes =
    (SELECT COALESCE(SUM(LENGTH(body) + 32 * entries), 0) FROM batches WHERE transfer = transfers.id);
