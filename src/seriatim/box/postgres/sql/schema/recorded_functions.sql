-- Purpose: the sets of functions and views that the box has had, if the function that returns them is gone.
-- Index: function_sets_pkey.
SELECT checksum, names FROM {schema}.function_sets ORDER BY set_id
