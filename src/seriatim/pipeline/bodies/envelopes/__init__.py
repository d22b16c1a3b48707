"""Envelopes: the forms in which change logs and event buses describe changes and events; a module for each form."""
