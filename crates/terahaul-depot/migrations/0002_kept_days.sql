-- For how many days a transfer is kept, counted anew while it is sent and when it is finished. What is here already was to be kept from
-- when it was made on.
ALTER TABLE transfers ADD COLUMN kept_days BIGINT NOT NULL DEFAULT 1;
UPDATE transfers SET kept_days = (expires - created + 86399) / 86400 WHERE expires > created;
