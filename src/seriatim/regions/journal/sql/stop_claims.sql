-- End all claims.
-- Caller: operators.py. Locks: the sessions with a claim. Index: sessions_not_idle.
UPDATE {schema}.sessions SET state = 0, claim = NULL, region = NULL, lease_until = NULL WHERE state = 1
