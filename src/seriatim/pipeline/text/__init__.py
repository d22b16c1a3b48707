"""Texts as they are written: YAML with places, names, secrets, and which text can be kept."""
