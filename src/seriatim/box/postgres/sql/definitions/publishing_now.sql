-- Purpose: the transactions that keep the definitions from being changed, in words: publishers, or a holder of their
-- lock.
SELECT {schema}.holders_of({schema}.lock_of('publishers')) AS holders
