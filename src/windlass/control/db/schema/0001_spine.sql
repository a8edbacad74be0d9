-- serves: 1
-- The first schema. Times are milliseconds since 1970 UTC, GPU amounts thousandths, money
-- micro-units: integers everywhere. JSON is text. `tenant` of '' means the platform itself.
-- `clustered` asks an engine that can (SQLite) to keep a table of small rows in its primary key alone:
-- half the pages to write per commit.

-- One row per counter; a value is taken in the transaction that uses it, so it follows commit order.
CREATE TABLE counters (
  name TEXT PRIMARY KEY,
  value BIGINT NOT NULL
) /* clustered */;
INSERT INTO counters (name, value) VALUES ('event', 0);
INSERT INTO counters (name, value) VALUES ('audit', 0);

CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  role TEXT NOT NULL,
  tenant TEXT,
  hash TEXT NOT NULL UNIQUE,
  created_ms BIGINT NOT NULL,
  expires_ms BIGINT,
  revoked_ms BIGINT,
  last_used_ms BIGINT
);

-- The catalog: every revision of every document. A row is current while to_revision is null.
CREATE TABLE revisions (
  revision BIGINT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  actor TEXT NOT NULL
);
CREATE TABLE documents (
  kind TEXT NOT NULL,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  version BIGINT NOT NULL,
  from_revision BIGINT NOT NULL,
  to_revision BIGINT,
  body TEXT NOT NULL,
  PRIMARY KEY (kind, tenant, name, from_revision)
);

CREATE TABLE decisions (
  id TEXT PRIMARY KEY,
  tenant TEXT,
  component TEXT NOT NULL,
  verdict TEXT NOT NULL,
  at_ms BIGINT NOT NULL,
  body TEXT NOT NULL
) /* clustered */;
CREATE INDEX decisions_tenant ON decisions (tenant, id);
CREATE INDEX decisions_component ON decisions (component, id);

-- The intent as its author last gave it. `workload` is its newest run.
CREATE TABLE components (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  project TEXT NOT NULL,
  env TEXT NOT NULL,
  name TEXT NOT NULL,
  version BIGINT NOT NULL,
  created_ms BIGINT NOT NULL,
  decision TEXT NOT NULL,
  workload TEXT,
  body TEXT NOT NULL,
  UNIQUE (project, env, name)
) /* clustered */;
CREATE INDEX components_tenant ON components (tenant, id);

-- One run of a component. `seq` is the event id of its last change: the scheduler's feed.
-- `want` is what the site should do about it: '' (nothing), run, stop.
CREATE TABLE workloads (
  id TEXT PRIMARY KEY,
  component TEXT NOT NULL,
  tenant TEXT NOT NULL,
  path TEXT NOT NULL,
  run BIGINT NOT NULL,
  attempt BIGINT NOT NULL,
  phase TEXT NOT NULL,
  generation BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  line TEXT NOT NULL,
  shape TEXT NOT NULL,
  manifest TEXT NOT NULL,
  tier TEXT NOT NULL,
  currency TEXT NOT NULL,
  submitted_ms BIGINT NOT NULL,
  queued_ms BIGINT NOT NULL,
  admitted_ms BIGINT,
  started_ms BIGINT,
  finished_ms BIGINT,
  site TEXT NOT NULL,
  want TEXT NOT NULL,
  stop_reason TEXT NOT NULL,
  preempted_by TEXT,
  preemptions BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  placement TEXT NOT NULL,
  outcome TEXT NOT NULL
);
CREATE INDEX workloads_seq ON workloads (seq);
CREATE INDEX workloads_live ON workloads (id) WHERE finished_ms IS NULL;
CREATE INDEX workloads_wanted ON workloads (site, id) WHERE want <> '';

-- Which phase a workload entered when: with line_causes, the explanation of every pending second.
CREATE TABLE transitions (
  workload TEXT NOT NULL,
  n BIGINT NOT NULL,
  at_ms BIGINT NOT NULL,
  phase TEXT NOT NULL,
  message TEXT NOT NULL,
  PRIMARY KEY (workload, n)
) /* clustered */;
CREATE TABLE line_causes (
  line TEXT NOT NULL,
  since_ms BIGINT NOT NULL,
  cause TEXT NOT NULL,
  also TEXT NOT NULL,
  message TEXT NOT NULL,
  PRIMARY KEY (line, since_ms)
) /* clustered */;

CREATE TABLE nodes (
  site TEXT NOT NULL,
  name TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (site, name)
) /* clustered */;

-- GPUs held, from placement to release; one row per workload attempt.
CREATE TABLE holdings (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  project TEXT NOT NULL,
  env TEXT NOT NULL,
  component TEXT NOT NULL,
  gpu_class TEXT NOT NULL,
  tier TEXT NOT NULL,
  currency TEXT NOT NULL,
  gpu_milli BIGINT NOT NULL,
  since_ms BIGINT NOT NULL,
  until_ms BIGINT
) /* clustered */;
CREATE INDEX holdings_open ON holdings (since_ms) WHERE until_ms IS NULL;
CREATE INDEX holdings_tenant ON holdings (tenant, since_ms);
CREATE INDEX holdings_component ON holdings (project, env, component);

-- Double entry. A transfer is unique for ever by (source, id); its entries sum to zero.
CREATE TABLE transfers (
  source TEXT NOT NULL,
  id TEXT NOT NULL,
  at_ms BIGINT NOT NULL,
  tenant TEXT NOT NULL,
  holding TEXT NOT NULL,
  segment_ms BIGINT NOT NULL,
  sequence BIGINT NOT NULL,
  through_ms BIGINT NOT NULL,
  gpu_us BIGINT NOT NULL,
  per_gpu_hour BIGINT,
  book TEXT,
  micros BIGINT NOT NULL,
  currency TEXT NOT NULL,
  memo TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (source, id)
) /* clustered */;
CREATE INDEX transfers_holding ON transfers (holding, segment_ms);
CREATE TABLE entries (
  source TEXT NOT NULL,
  id TEXT NOT NULL,
  account TEXT NOT NULL,
  currency TEXT NOT NULL,
  micros BIGINT NOT NULL,
  PRIMARY KEY (source, id, account)
) /* clustered */;

-- What each scope spent by UTC day (every budget period is made of days), and what admitted work
-- may still cost it.
CREATE TABLE budgets (
  scope TEXT NOT NULL,
  day_ms BIGINT NOT NULL,
  spent BIGINT NOT NULL,
  PRIMARY KEY (scope, day_ms)
) /* clustered */;
CREATE TABLE budget_held (
  scope TEXT PRIMARY KEY,
  micros BIGINT NOT NULL
) /* clustered */;
-- `renewed` of 1 stays an hour ahead of unlimited work, 0 is used up as limited work is posted.
CREATE TABLE budget_holds (
  workload TEXT NOT NULL,
  scope TEXT NOT NULL,
  micros BIGINT NOT NULL,
  renewed BIGINT NOT NULL,
  PRIMARY KEY (workload, scope)
) /* clustered */;

CREATE TABLE events (
  id BIGINT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  type TEXT NOT NULL,
  tenant TEXT,
  subject TEXT NOT NULL,
  actor TEXT NOT NULL,
  data TEXT NOT NULL
) /* clustered */;
CREATE INDEX events_subject ON events (subject, id);
CREATE INDEX events_tenant ON events (tenant, id);

CREATE TABLE audit (
  id BIGINT PRIMARY KEY,
  at_ms BIGINT NOT NULL,
  tenant TEXT,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  request_id TEXT NOT NULL,
  detail TEXT NOT NULL
) /* clustered */;

CREATE TABLE idempotency (
  principal TEXT NOT NULL,
  key TEXT NOT NULL,
  hash TEXT NOT NULL,
  status BIGINT NOT NULL,
  answer TEXT NOT NULL,
  at_ms BIGINT NOT NULL,
  PRIMARY KEY (principal, key)
) /* clustered */;
