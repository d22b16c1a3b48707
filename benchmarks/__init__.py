"""Benchmarks: ratios against a ceiling or a peer that is measured in the same run. `python -m benchmarks --help`."""
