"""Redaction: secrets and private parts are masked before anything is stored.

A redactor finds over a hundred kinds of secrets in plain text and in raw lines of JSON, and puts
`[REDACTED]` in place of the value alone.
"""

from threadkeep.redact.engine import Finding, Masked, MaskNote, Redactor
from threadkeep.redact.markers import PRIVATE
from threadkeep.redact.rules import MASK, Loaded, Refused, Rule, load_rules

__all__ = [
    "MASK",
    "PRIVATE",
    "Finding",
    "Loaded",
    "MaskNote",
    "Masked",
    "Redactor",
    "Refused",
    "Rule",
    "load_rules",
]
