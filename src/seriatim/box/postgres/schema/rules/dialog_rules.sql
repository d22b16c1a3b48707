-- The effect of a verb on a side of a dialog in a state: the table of kernel/dialog.py.
DELETE FROM {schema}.dialog_rules;
INSERT INTO {schema}.dialog_rules (verb, state, becomes, tells, refusal) VALUES
    {DIALOG_RULES};
