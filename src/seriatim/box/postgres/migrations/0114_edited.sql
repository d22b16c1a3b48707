-- Whether an operator has edited it; NULL: no.
ALTER TABLE {schema}.entries ADD COLUMN edited boolean;
UPDATE {schema}.entries SET edited = TRUE WHERE entry_id IN (SELECT entry_id FROM {schema}.edits);
