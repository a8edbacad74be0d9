-- serves: 6
-- Of which component type a run is, as name@version, and with it the GPU time it held. Rows of releases before
-- this one have ''.
ALTER TABLE workloads ADD COLUMN type TEXT NOT NULL DEFAULT '';
ALTER TABLE holdings ADD COLUMN type TEXT NOT NULL DEFAULT '';
