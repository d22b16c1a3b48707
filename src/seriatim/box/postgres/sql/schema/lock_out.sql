-- Purpose: wait until no transaction publishes or has messages in hand, and lock all others out until the transaction
-- ends.
-- Locks: these tables, against all others; in the order in which publishers take them.
LOCK TABLE {schema}.arrivals, {schema}.spool, {schema}.entries IN ACCESS EXCLUSIVE MODE
