"""What can be declared, as values: pipelines, queues, locations, subscriptions, contracts, services."""
