-- Lists of which a page reads the next rows: dialogs by their age, and what was set aside, or is unrouted, by the time of that.
CREATE INDEX endpoints_by_age ON {schema}.endpoints (began_at, handle);
CREATE INDEX aside_by_time ON {schema}.aside (aside_at, arrival_id, position, entry_id) WHERE disposition <> 'dead';
CREATE INDEX unrouted_by_time ON {schema}.unrouted (unrouted_at, arrival_id, position);
