-- A run of a pipeline that another one has superseded writes no more: each writer has the number of the last run that wrote.

ALTER TABLE {schema}.writers ADD COLUMN fence bigint NOT NULL DEFAULT 0;
