-- Conflicts: a number that comes again with another content.

-- The last messages of a group that were released: for each its number and the fingerprint of its content, 8 bytes each.
ALTER TABLE {schema}.known_groups ADD COLUMN remembered bytea NOT NULL DEFAULT '';
ALTER TABLE {schema}.known_groups ALTER COLUMN remembered SET STORAGE MAIN;
CREATE OR REPLACE VIEW {schema}.seen_known_groups WITH (security_barrier) AS
SELECT * FROM {schema}.known_groups WHERE queue_id = ANY ((SELECT {schema}.sees('see'))::integer[]);

COMMENT ON COLUMN {schema}.entries.size IS
'The size of its set, where it tells it; in a queue that is Standard the fingerprint of its content, NULL: it is not compared.';

-- These functions carry it along; the rest of each stays as it is.
DO $all$
DECLARE
    one record;
    known oid;
    before text;
    now_is text;
BEGIN
    FOR one IN
        SELECT * FROM (VALUES
            ('decide', TRUE, $q$due_ats bigint[], ready_ranks bigint[],$q$, $q$due_ats bigint[], ready_ranks bigint[], remembered text[],$q$),
            ('decide', FALSE, $q$ready_rank, suspects, suspect
    )$q$, $q$ready_rank, suspects, suspect, remembered
    )$q$),
            ('decide', FALSE, $q$states[at + 10], states[at + 11]
$q$, $q$states[at + 10], states[at + 11],
        decode(new.remembered, 'base64')
$q$),
            ('decide', FALSE, $q$decided, due_ats, ready_ranks)
        WITH ORDINALITY AS new (group_key, skipped, arrivals, decided, due_at, ready_rank, place)$q$,
            $q$decided, due_ats, ready_ranks, remembered)
        WITH ORDINALITY AS new (group_key, skipped, arrivals, decided, due_at, ready_rank, remembered, place)$q$),
            (
                'decide', FALSE, $q$suspect = excluded.suspect, touched_at$q$,
                $q$suspect = excluded.suspect, remembered = excluded.remembered, touched_at$q$
            ),
            (
                'turn_groups', TRUE, $q$arrivals bigint, decided bigint[])$q$,
                $q$arrivals bigint, decided bigint[], remembered text)$q$
            ),
            ('turn_groups', FALSE, $q$arrivals, decided
$q$, $q$arrivals, decided,
        encode(remembered, 'base64')
$q$),
            ('forget', FALSE, $q$suspect = fresh[11],$q$, $q$suspect = fresh[11], remembered = '',$q$)
        ) AS wanted (name, anew, old, new)
    LOOP
        SELECT fn.oid INTO STRICT known FROM pg_proc AS fn
        WHERE fn.pronamespace = '{schema}'::regnamespace AND fn.proname = one.name;
        before := pg_get_functiondef(known);
        IF (length(before) - length(replace(before, one.old, ''))) <> length(one.old) THEN
            RAISE EXCEPTION 'not once in %: %', one.name, one.old;
        END IF;
        now_is := replace(before, one.old, one.new);
        IF one.anew THEN -- with other arguments, or another result
            EXECUTE format('DROP FUNCTION %s', known::regprocedure);
        END IF;
        EXECUTE now_is;
    END LOOP;
END
$all$;
