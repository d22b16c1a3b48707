-- Purpose: the rows of the table {0} that refer to the message of the row `message`.
SELECT FROM {schema}.{0} AS other WHERE other.arrival_id = message.arrival_id AND other.position = message.position
