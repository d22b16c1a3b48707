-- Choose the plans of statements over many rows: for few, planning takes longer than execution; for many, a plan
-- without their number is wrong.
-- is: sql, immutable
CREATE OR REPLACE FUNCTION {schema}.link_plans(rows bigint) RETURNS text
RETURN CASE WHEN rows <= 50 THEN 'force_generic_plan' ELSE 'force_custom_plan' END;
