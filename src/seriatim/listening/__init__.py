"""The common part of everything that listens: the console, metrics and health, and links over HTTPS are applications of one server.

Its connections have deadlines, and room for strangers is bounded: a caller without a password or a certificate can't keep others out.
"""
