-- serves: 2
-- Identity. A row of api_keys is a key that stays, or (kind 'token') a short-lived one; `parent` is what
-- a token was exchanged for: a key's id, or a provider's subject. `actions` (separated by spaces, '' for
-- all of the role's) and `project` narrow it. `account` is the service account it belongs to.
ALTER TABLE api_keys ADD COLUMN kind TEXT NOT NULL DEFAULT 'key';
ALTER TABLE api_keys ADD COLUMN parent TEXT;
ALTER TABLE api_keys ADD COLUMN account TEXT;
ALTER TABLE api_keys ADD COLUMN actions TEXT NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN project TEXT;
ALTER TABLE api_keys ADD COLUMN replaced_by TEXT;
CREATE INDEX api_keys_parent ON api_keys (parent) WHERE parent IS NOT NULL;
CREATE INDEX api_keys_tokens ON api_keys (expires_ms) WHERE kind = 'token';

-- Who acts without being a person. `tenant` of '' means the platform itself.
CREATE TABLE service_accounts (
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  note TEXT NOT NULL,
  created_ms BIGINT NOT NULL,
  created_by TEXT NOT NULL,
  PRIMARY KEY (tenant, name)
) /* clustered */;
