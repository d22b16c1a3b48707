-- End a lease before its time; one that is another's by now stays.
UPDATE {schema}.pipelines
SET claim = NULL, region = NULL, holder = NULL, lease_until = NULL, held_since = NULL
WHERE name = %(name)s AND claim = %(claim)s AND version = %(version)s
