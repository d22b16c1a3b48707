-- The contracts, a row for each of their types: who sends it. For roles with any right in this box.
CREATE OR REPLACE VIEW {schema}.contracts AS
SELECT known.contract, one.key AS message_type, one.value AS sent_by
FROM {schema}.known_contracts AS known CROSS JOIN LATERAL jsonb_each_text(known.definition -> 'types') AS one;
