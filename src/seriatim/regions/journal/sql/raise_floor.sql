-- Keep the versions of later claims above those of forgotten sessions.
UPDATE {schema}.journal SET claim_floor = greatest(claim_floor, %(floor)s::bigint)
