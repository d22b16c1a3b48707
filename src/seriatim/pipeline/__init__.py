"""What to run: the declaration of pipelines and queues, for every engine."""
