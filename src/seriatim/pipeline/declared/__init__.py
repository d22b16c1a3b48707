"""Declarations, as values: pipelines, queues, locations, subscriptions, contracts, services."""
