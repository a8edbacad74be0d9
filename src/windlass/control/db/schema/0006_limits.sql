-- serves: 4
-- What replicas tell each other of their token buckets: one row of JSON. It is read and rewritten as a whole
-- about once a second by each replica that lets anything through, and holds only buckets that are not full.
CREATE TABLE shared_limits (
  name TEXT PRIMARY KEY,
  body TEXT NOT NULL
) /* clustered */;
