-- Take the lease of a pipeline, if nobody has it, or its holder's is over, or the former claim is one's own; no row: another run has it.
UPDATE {schema}.pipelines AS known
SET
    claim = %(claim)s, region = %(region)s, holder = %(holder)s, version = greatest(known.version, journal.claim_floor) + 1,
    lease_until = {STATEMENT_US} + %(lease)s::bigint,
    held_since = CASE WHEN known.claim = %(former)s::text THEN known.held_since ELSE {STATEMENT_US} END,
    take_overs = known.take_overs + CASE WHEN known.claim IS NULL OR known.claim = %(former)s::text THEN 0 ELSE 1 END
FROM {schema}.journal AS journal
WHERE known.name = %(name)s
    AND (known.claim IS NULL OR known.lease_until <= {STATEMENT_US} OR known.claim = %(former)s::text)
RETURNING known.version, journal.incarnation, known.take_overs
