"""Leases for any caller: a run of one group, handed out under a fencing token, and ended by calls from any process."""
