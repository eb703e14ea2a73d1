-- What tells whether the store is older than this database. One row.
CREATE TABLE generation (
    number BIGINT NOT NULL PRIMARY KEY
);
