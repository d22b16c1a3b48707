-- Find the staged messages that the initiator of a dialog may not send under a contract. The caller holds the
-- definitions.
-- is: sql
CREATE OR REPLACE FUNCTION {schema}.judge_sends(of_parts bigint[], by_contract text) RETURNS void
AS $function$
    WITH agreed AS (
        SELECT one.type, one.who FROM {schema}.known_contracts AS known
        CROSS JOIN LATERAL jsonb_each_text(known.definition -> 'types') AS one (type, who)
        WHERE known.contract = by_contract COLLATE "C"
    ), judged AS (
        SELECT message.part_id, message.place, CASE
            WHEN agreed.who IS NULL THEN
                format('the contract "%s" has no message type "%s"', by_contract, left(message.type, 300))
            WHEN agreed.who = 'target' THEN
                format('only the target sends "%s" under the contract "%s"', message.type, by_contract)
            WHEN octet_length(message.body) > 536870912 THEN 'the body of a message can have 536870912 bytes at most'
        END AS problem
        FROM {schema}.staged_messages AS message LEFT JOIN agreed ON agreed.type = message.type COLLATE "C"
        WHERE message.part_id = ANY (of_parts)
    )
    UPDATE {schema}.staged_keys AS staged SET problem = judged.problem FROM judged
    WHERE staged.part_id = judged.part_id AND staged.place = judged.place
        AND staged.key IS NOT NULL AND staged.problem IS DISTINCT FROM judged.problem
$function$;
