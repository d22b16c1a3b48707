-- Return an Error's body.
-- is: sql, stable
CREATE OR REPLACE FUNCTION {schema}.error_body(code integer, why text) RETURNS bytea
RETURN convert_to(jsonb_build_object('code', code, 'text', why)::text, 'UTF8');
