-- serves: 2
-- What traces and service levels need to know of a workload after a restart. `traceparent` is the request
-- that asked for it ('': it was not traced). The first placement and start stay when later attempts move
-- admitted_ms and started_ms on; `estimated_ms` is the start its author was first told.
ALTER TABLE workloads ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';
ALTER TABLE workloads ADD COLUMN estimated_ms BIGINT;
ALTER TABLE workloads ADD COLUMN first_admitted_ms BIGINT;
ALTER TABLE workloads ADD COLUMN first_started_ms BIGINT;

-- How the API did, minute by minute: requests that were answered, and those the platform failed.
CREATE TABLE api_minutes (
  minute_ms BIGINT PRIMARY KEY,
  answered BIGINT NOT NULL,
  failed BIGINT NOT NULL
) /* clustered */;
