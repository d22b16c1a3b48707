"""Operators' functions for pipelines: list their groups and act on them. A pipeline is named, or its file is."""

from seriatim.extras import need

need("spark")
