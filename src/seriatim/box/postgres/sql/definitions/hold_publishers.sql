-- Purpose: see that nobody is publishing by what was defined until now, and that nobody begins to.
-- Caller: define.py. Answers FALSE where somebody went on publishing for so long.
-- Locks: the publishers' advisory lock, alone, until the transaction ends. Publishers wait for it, so it is waited for
-- briefly, and again later.
-- Index: none.
SELECT {schema}.hold_publishers(%(patience_ms)s) AS held
