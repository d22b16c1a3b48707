-- What a delay is counted from, by the database's clock: so a delay that began while that clock was ahead can be told
-- from a long one, and be counted from now.

-- When the delay began after which the message may be seen; NULL: it has none, or the moment itself was given.
ALTER TABLE {schema}.entries ADD COLUMN delayed_at timestamptz;
CREATE INDEX entries_delayed ON {schema}.entries (delayed_at) WHERE delayed_at IS NOT NULL;

-- When the lease was claimed, or put off last.
ALTER TABLE {schema}.leases ADD COLUMN renewed_at timestamptz NOT NULL DEFAULT clock_timestamp();
UPDATE {schema}.leases SET renewed_at = claimed_at;

-- When its timer was set.
ALTER TABLE {schema}.endpoints ADD COLUMN timer_set_at timestamptz;

-- Why a turn of the group failed, which nobody works on until the lease has run out; NULL: a worker has it.
ALTER TABLE {schema}.leases ADD COLUMN error text;
