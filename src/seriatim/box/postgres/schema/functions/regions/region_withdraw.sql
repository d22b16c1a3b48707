-- Withdraw messages that the journal has barred from their numbers. Their entries stay, under unused ids: their
-- receiver learns from the journal that the number is over, or another message's. So a sender may give such a message
-- another number.
-- is: own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_withdraw(of_name text, of_messages text[]) RETURNS void
AS $function$
BEGIN
    DELETE FROM {schema}.region_outbox AS one WHERE one.name = of_name AND one.message_id = ANY (of_messages);
    UPDATE {schema}.spool AS stored SET message_id = left(stored.message_id, 900) || ' withdrawn ' || gen_random_uuid()
    FROM (
        SELECT DISTINCT one.arrival_id, one.position FROM {schema}.region_numbers AS one
        WHERE one.message_id = ANY (of_messages) AND NOT one.withdrawn
    ) AS mine
    WHERE stored.arrival_id = ANY (ARRAY[mine.arrival_id]) AND stored.position = ANY (ARRAY[mine.position]);
    UPDATE {schema}.region_numbers AS one SET withdrawn = TRUE
    WHERE one.message_id = ANY (of_messages) AND NOT one.withdrawn;
    DELETE FROM {schema}.message_ids AS known WHERE known.message_id = ANY (of_messages) AND known.id_space = '';
END
$function$;
