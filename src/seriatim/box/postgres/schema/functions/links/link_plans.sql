-- How statements over so many rows are planned: of few, to plan takes longer than to do; for many, a plan that doesn't
-- know how many is wrong.
-- is: sql, immutable
CREATE OR REPLACE FUNCTION {schema}.link_plans(rows bigint) RETURNS text
RETURN CASE WHEN rows <= 50 THEN 'force_generic_plan' ELSE 'force_custom_plan' END;
