-- The role that claimed it: no other role can keep the claim, or move the position. NULL: nobody has claimed it since this column is there.
ALTER TABLE {schema}.ports ADD COLUMN role name;
