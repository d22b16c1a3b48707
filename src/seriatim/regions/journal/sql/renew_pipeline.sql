-- Renew the lease of a pipeline; no row: it is another's by now.
UPDATE {schema}.pipelines
SET lease_until = {STATEMENT_US} + %(lease)s::bigint
WHERE name = %(name)s AND claim = %(claim)s AND version = %(version)s
RETURNING version
