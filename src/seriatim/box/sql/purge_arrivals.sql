-- Purpose: forget what transactions published that have ended without numbering it; only a commit with triggers
-- switched off leaves such rows.
-- Caller: purge.py.
-- Locks: the rows that go.
-- Index: arrivals_pkey.
DELETE FROM {schema}.arrivals WHERE transaction < pg_snapshot_xmin(pg_current_snapshot())
