"""Ports in: take messages from brokers and peers, publish them, commit, acknowledge. Guarantees: docs/reference/ports-in.md."""
