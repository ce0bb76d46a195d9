"""Why a value was taken for a secret, in words that a person can check."""

from threadkeep.redact.looks import entropy, kinds_of
from threadkeep.redact.search import RuleMatch

_SHAPED = "its shape"


def why(found: RuleMatch) -> str:
    """Tell what speaks for a finding: the name before it, its length, letters and disorder."""
    value = found.value
    facts = [f"{len(value)} characters", f"{entropy(value):.1f} bits each", kinds_of(value)]
    return f"{found.rule.description or found.rule.id} ({_name(found)}; {', '.join(facts)})"


def _name(found: RuleMatch) -> str:
    groups = found.match.groupdict()
    for name in ("word", "prefix"):
        if groups.get(name):
            tail = groups.get("tail") or b""
            return f"{name} `{(groups[name] + tail).decode('utf-8', 'replace')}`"
    return _SHAPED
