-- The one row of a new journal.
INSERT INTO {schema}.journal (one, id, version, incarnation, claim_floor) VALUES (true, %(id)s, %(version)s, 1, 0)
