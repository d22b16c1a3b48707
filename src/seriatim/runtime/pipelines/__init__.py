"""Running a pipeline: what it remembers, what it tells of itself, how it fails and is begun again."""
