-- Purpose: the message of the row {0} has the properties of a command's filter, if there are any.
(%(names)s::text[] IS NULL OR EXISTS (
    SELECT FROM {schema}.spool AS stored
    WHERE stored.arrival_id = {0}.arrival_id AND stored.position = {0}.position AND {has_wanted_properties(stored)}
))
