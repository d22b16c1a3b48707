"""Dialogs: their verbs, timers and lifetimes, and messages that wait for delivery."""
