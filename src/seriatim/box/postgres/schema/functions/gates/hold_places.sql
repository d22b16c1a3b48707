-- Keep others from giving place numbers of a group until the transaction ends, unless one is about to.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.hold_places(of_queue integer, of_group text) RETURNS boolean
RETURN pg_try_advisory_xact_lock_shared({schema}.lock_of('places ' || of_queue))
    AND pg_try_advisory_xact_lock({schema}.lock_of(format('places %s %s', of_queue, of_group)));
