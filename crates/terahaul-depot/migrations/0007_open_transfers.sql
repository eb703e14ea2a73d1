-- A token has so many open transfers at most, which are counted when it makes another.
DROP INDEX transfers_open;
CREATE INDEX transfers_open ON transfers (owner, expires) WHERE state = 'open';
