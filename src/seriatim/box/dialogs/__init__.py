"""Dialogs: their verbs, their timers, what waits for delivery."""
