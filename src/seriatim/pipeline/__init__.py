"""The declaration of pipelines and queues, for every engine."""
