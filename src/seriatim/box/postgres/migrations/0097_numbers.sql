-- What a producer's numbers mean, in the queues that say so.

-- Of an entry whose number isn't plain: its bits, the last number that it covers, its epoch, and the fingerprint of its content where
-- `size` has that of a set; then the numbers that its set lacks, as runs.
ALTER TABLE {schema}.entries ADD COLUMN meaning bigint[] CHECK (cardinality(meaning) >= 4 AND array_position(meaning, NULL) IS NULL);
ALTER TABLE {schema}.aside ADD COLUMN meaning bigint[];
ALTER TABLE {schema}.staged_entries ADD COLUMN meaning bigint[];

-- The life of a group: the columns of the kernel's state, whether `remembered` has a third number of each message, the last that it
-- covers, and what never left of the epoch before, as runs. NULL: its numbers are plain.
ALTER TABLE {schema}.known_groups ADD COLUMN lives bigint[];

ALTER TABLE {schema}.aside DROP CONSTRAINT aside_disposition_check, ADD CONSTRAINT aside_disposition_check
CHECK (disposition IN ('late', 'duplicate', 'invalid', 'rejected', 'dead', 'void'));
ALTER TABLE {schema}.events DROP CONSTRAINT events_kind_check, ADD CONSTRAINT events_kind_check CHECK (kind IN (
    'hole_opened', 'hole_overdue', 'hole_skipped', 'hole_filled', 'timed_out', 'closed', 'suspended', 'resumed', 'conflict',
    'restart_suspected', 'void', 'restored', 'hole_covered', 'incomplete'
));
