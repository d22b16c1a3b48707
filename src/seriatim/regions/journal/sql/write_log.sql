-- Note what an operator did.
INSERT INTO {schema}.operator_log (id, name, queue, session, at, actor, action, reason, detail)
VALUES (%(id)s, %(name)s, %(queue)s, %(session)s, {STATEMENT_US}, %(actor)s, %(action)s, %(reason)s, %(detail)s)
