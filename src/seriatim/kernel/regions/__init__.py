"""The rules that two regions share."""
