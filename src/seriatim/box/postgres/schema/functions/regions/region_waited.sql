-- Note that the numbers of messages are confirmed, and the caller takes them in, in this transaction. Return those
-- that are the caller's: another process may have taken some in.
-- is: own path, no seqscan
CREATE OR REPLACE FUNCTION {schema}.region_waited(of_messages bigint[], of_numbers bigint[]) RETURNS SETOF bigint
AS $function$
BEGIN
    RETURN QUERY
        DELETE FROM {schema}.region_waiting AS one
        USING unnest(of_messages, of_numbers) AS given (waiting_id, number)
        WHERE one.waiting_id = given.waiting_id AND one.number = given.number
        RETURNING one.waiting_id;
END
$function$;
