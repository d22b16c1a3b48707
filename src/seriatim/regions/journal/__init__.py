"""The journal of two regions: which numbers of a session are over, and which region works on which.

`journal.py` is its door. `locked.py` reads sessions under their locks, lets the kernel decide and writes what it decided; `claims.py`,
`votes.py`, `operators.py` and `forgetting.py` say what is asked of the kernel. It is a schema of its own in any PostgreSQL, in plain SQL
(`sql/`, `versions/`), and needs no message box.
"""
