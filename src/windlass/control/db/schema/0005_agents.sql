-- serves: 2
-- Of an agent's key: the one site it may speak for.
ALTER TABLE api_keys ADD COLUMN site TEXT;
