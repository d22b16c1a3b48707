"""Run a pipeline: its checkpoint, its reports, its failures and restarts."""
