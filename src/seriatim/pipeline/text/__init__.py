"""Texts: YAML with places, names, secrets, and the rule for text that can be stored."""
