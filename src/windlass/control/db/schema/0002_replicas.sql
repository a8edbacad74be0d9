-- serves: 2
-- Several servers on one database.

-- The newest revision, where every transaction sees it at no cost: a replica that is behind catches up.
INSERT INTO counters (name, value) SELECT 'catalog', COALESCE(MAX(revision), 0) FROM revisions;

-- Who does what only one may do. A token grows with every change of holder; whoever writes as holder
-- shows it, so one that was frozen and wakes is refused. Times are the database's own.
CREATE TABLE leases (
  name TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  token BIGINT NOT NULL,
  expires_ms BIGINT NOT NULL
) /* clustered */;
