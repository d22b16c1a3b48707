-- Purpose: let no further statement of this transaction take longer than that.
-- Caller: invariants.py.
-- Locks: none.
-- Index: none.
SELECT set_config('statement_timeout', %(milliseconds)s::integer::text, TRUE)
