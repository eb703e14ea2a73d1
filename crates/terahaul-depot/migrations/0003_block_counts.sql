-- How many blocks a finished transfer has was an estimate. Where nothing has failed all of them are here, and the last one's number says it;
-- elsewhere the last ones may be void, and the estimate stays.
UPDATE transfers SET blocks = (SELECT COALESCE(MAX(block) + 1, 0) FROM blocks WHERE transfer = transfers.id)
WHERE state <> 'open' AND NOT EXISTS (SELECT 1 FROM failures WHERE transfer = transfers.id);
