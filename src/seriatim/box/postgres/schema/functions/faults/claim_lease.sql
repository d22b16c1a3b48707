-- Make a lease of the first `how_many` messages that were handed out, and put all of them back. The caller has locked
-- them, and commits. `period` NULL: it has no end yet, and what `hand_out_fifo` has released for it stays in hand until
-- `lease_at_commit`; what was released before gets the mark of this transaction, should it be rolled back. A message
-- without a group is hidden meanwhile.
-- is: definer, no seqscan
CREATE OR REPLACE FUNCTION {schema}.claim_lease(
    of_queue integer, of_group text, of_entries bigint[], ordinals bigint[], lates boolean[], how_many integer,
    of_worker text, period interval, OUT token bigint, OUT incarnation integer
)
AS $function$
DECLARE
    known record;
BEGIN
    PERFORM {schema}.permit_entries('receive', of_queue, of_entries);
    IF of_group IS NULL THEN
        UPDATE {schema}.entries AS entry SET visible_at = 'infinity'
        WHERE entry.entry_id = ANY (of_entries[:how_many]) AND entry.queue_id = of_queue;
    ELSE
        SELECT one.incarnation, one.xmin = pg_current_xact_id()::xid AS is_own INTO known
        FROM {schema}.known_groups AS one WHERE one.queue_id = of_queue AND one.group_key = of_group;
        incarnation := known.incarnation;
        IF period IS NOT NULL OR how_many < cardinality(of_entries) OR known.is_own IS NOT TRUE THEN
            PERFORM {schema}.put_back(of_queue, of_group, of_entries, ordinals, lates);
        END IF;
    END IF;
    INSERT INTO {schema}.leases AS lease (queue_id, group_key, entry_ids, worker, expires_at)
    VALUES (of_queue, of_group, of_entries[:how_many], of_worker, coalesce(clock_timestamp() + period, 'infinity'))
    RETURNING lease.token INTO token;
END
$function$;
