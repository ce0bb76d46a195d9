"""Redaction: secrets and private parts are masked before anything is stored.

A redactor finds over a hundred kinds of secrets in plain text and in raw lines of JSON, and puts
`[REDACTED]` in place of the value alone.
"""
