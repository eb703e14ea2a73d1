-- A token has so many sessions at most; the oldest are looked for when another begins.
CREATE INDEX sessions_by_token ON sessions (token, expires);
