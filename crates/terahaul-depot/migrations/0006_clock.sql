-- What the clock has shown since the machine started, so that a depot's start can tell whether it was put forward meanwhile. One row.
CREATE TABLE clock (
    -- Which start of the machine.
    boot    TEXT   NOT NULL PRIMARY KEY,
    -- When a depot first ran in it, by the clock as it was when last looked at.
    started BIGINT NOT NULL,
    -- By how much the clock is ahead of the time that has passed.
    ahead   BIGINT NOT NULL
);

-- From when on the days are counted after which a token expires.
ALTER TABLE tokens ADD COLUMN counted_from BIGINT;
UPDATE tokens SET counted_from = created WHERE expires IS NOT NULL;
