-- End a batch of which all sendable messages are sent: keep the rest as unrouted, each with its reason, and delete
-- the parts. Return the number of these messages.
CREATE OR REPLACE FUNCTION {schema}.end_sends(of_parts bigint[]) RETURNS bigint
AS $function$
BEGIN
    DELETE FROM {schema}.staged_messages AS message USING {schema}.staged_keys AS staged
    WHERE staged.part_id = ANY (of_parts) AND staged.problem IS NULL
        AND message.part_id = staged.part_id AND message.place = staged.place;
    UPDATE {schema}.staged_messages AS message SET destinations = 0, problem = staged.problem
    FROM {schema}.staged_keys AS staged
    WHERE staged.part_id = ANY (of_parts) AND message.part_id = staged.part_id AND message.place = staged.place;
    DELETE FROM {schema}.staged_keys WHERE part_id = ANY (of_parts);
    RETURN {schema}.merge_parts(of_parts, TRUE);
END
$function$;
