-- Purpose: the stored message {0}, or an edit of it, has the properties of a command's filter.
({schema}.has_properties({0}.context, %(names)s::text[], %(of_values)s::text[]) OR EXISTS (
    SELECT FROM {schema}.edits AS edit
    WHERE edit.arrival_id = {0}.arrival_id AND edit.position = {0}.position AND edit.context IS NOT NULL
        AND {schema}.has_properties(edit.context, %(names)s::text[], %(of_values)s::text[])
))
