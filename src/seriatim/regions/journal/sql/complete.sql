-- Complete numbers under a claim, in the handler's transaction; no row: the claim is another's by now.
UPDATE {schema}.sessions
SET
    done_through = %(last)s, hole_since = NULL,
    state = CASE WHEN %(ends)s::boolean THEN {session.IDLE} ELSE {session.WORKING} END,
    claim = CASE WHEN %(ends)s::boolean THEN NULL ELSE claim END,
    region = CASE WHEN %(ends)s::boolean THEN NULL ELSE region END,
    lease_until = CASE WHEN %(ends)s::boolean THEN NULL ELSE {STATEMENT_US} + %(lease)s::bigint END,
    used_at = {STATEMENT_US}
WHERE name = %(name)s AND queue = %(queue)s AND session = %(session)s
    AND state = {session.WORKING} AND claim = %(claim)s AND version = %(version)s AND done_through = %(before)s
RETURNING done_through
