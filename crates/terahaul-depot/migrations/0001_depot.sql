-- Portable to SQLite and PostgreSQL alike: SQLite takes BYTEA as a type name and keeps blobs as they are.

CREATE TABLE tokens (
    id         TEXT    NOT NULL PRIMARY KEY,
    -- The first 8 bytes of the hash find the row; the whole hash is then compared in constant time.
    prefix     BYTEA   NOT NULL,
    hash       BYTEA   NOT NULL,
    label      TEXT    NOT NULL,
    scopes     BIGINT  NOT NULL,
    quota      BIGINT,
    -- Set on the depot owner's own token, which is derived from the depot's secret so that it can be shown again.
    generation BIGINT,
    created    BIGINT  NOT NULL,
    last_used  BIGINT,
    expires    BIGINT,
    revoked    BIGINT
);
CREATE INDEX tokens_by_prefix ON tokens (prefix);

CREATE TABLE sessions (
    hash    BYTEA  NOT NULL PRIMARY KEY,
    prefix  BYTEA  NOT NULL,
    token   TEXT   NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    expires BIGINT NOT NULL
);
CREATE INDEX sessions_by_prefix ON sessions (prefix);

CREATE TABLE transfers (
    id            BYTEA   NOT NULL PRIMARY KEY,
    owner         TEXT    NOT NULL REFERENCES tokens (id),
    name          TEXT    NOT NULL,
    state         TEXT    NOT NULL,
    created       BIGINT  NOT NULL,
    expires       BIGINT  NOT NULL,
    completed     BIGINT,
    resume_key    TEXT,
    entries       BIGINT  NOT NULL DEFAULT 0,
    files         BIGINT  NOT NULL DEFAULT 0,
    bytes         BIGINT  NOT NULL DEFAULT 0,
    blocks        BIGINT  NOT NULL DEFAULT 0,
    failed        BIGINT  NOT NULL DEFAULT 0,
    failed_bytes  BIGINT  NOT NULL DEFAULT 0,
    durable_bytes BIGINT  NOT NULL DEFAULT 0,
    sealed        BOOLEAN NOT NULL DEFAULT FALSE,
    statement     TEXT,
    signature     TEXT
);
CREATE INDEX transfers_by_owner ON transfers (owner, created);
CREATE INDEX transfers_by_creation ON transfers (created);
CREATE INDEX transfers_by_expiry ON transfers (expires);

-- Consecutive entries, encoded together: never a row an entry.
CREATE TABLE batches (
    transfer    BYTEA   NOT NULL REFERENCES transfers (id) ON DELETE CASCADE,
    first_entry BIGINT  NOT NULL,
    entries     BIGINT  NOT NULL,
    -- Whether the open packed block is closed after the last of these entries.
    seal        BOOLEAN NOT NULL,
    body        BYTEA   NOT NULL,
    -- Once finished: 32 bytes an entry, zeros where there is no hash.
    hashes      BYTEA,
    PRIMARY KEY (transfer, first_entry)
);

CREATE TABLE failures (
    transfer BYTEA  NOT NULL REFERENCES transfers (id) ON DELETE CASCADE,
    entry    BIGINT NOT NULL,
    cause    TEXT   NOT NULL,
    detail   TEXT   NOT NULL,
    -- A later entry of the same path stands for it: it is not a failure of the transfer any more.
    superseded BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (transfer, entry)
);

-- Blocks whose bytes are durable.
CREATE TABLE blocks (
    transfer BYTEA  NOT NULL REFERENCES transfers (id) ON DELETE CASCADE,
    block    BIGINT NOT NULL,
    proof    BYTEA  NOT NULL,
    PRIMARY KEY (transfer, block)
);

-- CRC-32 of each file's part in a block (4 bytes each), kept once a zip stream has computed them.
CREATE TABLE checksums (
    transfer BYTEA  NOT NULL REFERENCES transfers (id) ON DELETE CASCADE,
    block    BIGINT NOT NULL,
    crcs     BYTEA  NOT NULL,
    PRIMARY KEY (transfer, block)
);
