"""Rules of others: gitleaks' format in Go's syntax, and Hippo's patterns."""

import json
import re

import pytest
from hypothesis import given, strategies as st

from threadkeep.capture.redact.engine import Redactor
from threadkeep.capture.redact.rules import (
    MASK,
    Rule,
    UnsupportedRegex,
    compile_go,
    load_rules,
    own_rules,
    to_python,
)
from threadkeep.capture.redact.search import hits, make_plan
from threadkeep.errors import Invalid

GITLEAKS = """
title = "rules of a team"
[extend]
useDefault = true
[allowlist]
regexes = ['''^acme_0+$''']
stopwords = ["sample"]

[[rules]]
id = "acme"
description = "Keys of Acme"
regex = '''(?i)\\b(acme_[a-z0-9]{12})(?:[\\x60'"\\s;]|\\\\[nr]|\\z)'''
entropy = 2
keywords = ["ACME_"]

[[rules]]
id = "grouped"
regex = '''corp(?i)-(key)=([a-z0-9]{8})'''
secretGroup = 2
keywords = ["corp"]
[[rules.allowlists]]
regexTarget = "match"
regexes = ['''KEY=public''']

[[rules]]
id = "only-a-path"
path = '''\\.p12$'''

[[rules]]
id = "from-another-engine"
regex = '''\\p{Greek}+'''
"""

HIPPO = """
[[patterns]]
name = "ticket"
regex = '(ticket)-(?P<n>[0-9]{4,})'
replacement = '$1-"${n}"$$'
[[patterns]]
name = "plain"
regex = 'xyzzy[0-9]+'
"""


def test_there_are_many_rules_and_each_has_its_own_name() -> None:
    names = [rule.id for rule in own_rules()]
    assert len(names) >= 100
    assert len(set(names)) == len(names)


def test_rules_in_gitleaks_format_are_read_and_a_bad_one_is_named() -> None:
    rules, refused = load_rules(GITLEAKS)
    assert [rule.id for rule in rules] == ["acme", "grouped"]
    assert [bad.id for bad in refused] == ["from-another-engine"]
    assert "\\p" in refused[0].reason


@pytest.mark.parametrize(
    "text, masked",
    [
        ("use acme_a1b2c3d4e5f6 now", f"use {MASK} now"),
        ("use ACME_A1B2C3D4E5F6", f"use {MASK}"),
        ("use acme_000000000000", "use acme_000000000000"),
        ("use acme_aaaaaaaaaaab", "use acme_aaaaaaaaaaab"),
        ("use acme_samplea1b2c3", "use acme_samplea1b2c3"),
        ("corp-KEY=a1b2c3d4", f"corp-KEY={MASK}"),
        ("CORP-KEY=a1b2c3d4", "CORP-KEY=a1b2c3d4"),
        ("corp-KEY=publicab", "corp-KEY=publicab"),
    ],
)
def test_rules_of_others_mask_what_they_mean(text: str, masked: str) -> None:
    assert Redactor(load_rules(GITLEAKS).rules).text(text) == masked


def test_patterns_of_hippo_replace_the_whole_match() -> None:
    redactor = Redactor(load_rules(HIPPO).rules)
    assert redactor.text("ticket-12345 xyzzy1") == f'ticket-"12345"$ {MASK}'
    line = json.dumps({"a": "ticket-12345"})
    assert json.loads(redactor.json_line(line)) == {"a": 'ticket-"12345"$'}


def test_a_rule_that_eats_quotes_cannot_break_a_json_line() -> None:
    rules = load_rules("[[rules]]\nid='greedy'\nregex='''b.*'''\n").rules
    line = json.dumps({"abc": "ab\ncd", "bcd": ["b", 1, {"xb": "by\u00e9"}]})
    masked = json.loads(Redactor(rules).json_line(line))
    assert masked == {"abc": MASK, "bcd": [MASK, 1, {"xb": MASK}]}


def test_extra_rules_come_beside_our_own() -> None:
    redactor = Redactor.default(load_rules(GITLEAKS).rules)
    text = "acme_a1b2c3d4e5f6 password=hunter2hunter2"
    assert redactor.text(text) == f"{MASK} password={MASK}"
    assert [found.rule for found in redactor.scan(text)] == ["acme", "password-assignment"]


@pytest.mark.parametrize(
    "text, hint", [("[[rules]", "three single quotes"), ("rules = 1", "[[rules]]")]
)
def test_a_file_that_is_no_rule_file_is_refused(text: str, hint: str) -> None:
    with pytest.raises(Invalid) as refused:
        load_rules(text)
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    "go, text, found",
    [
        (r"a(?i)b|c", b"C", True),
        (r"(a(?i)b|c)D", b"aBd", False),
        (r"(?i)a(?-i)b", b"Ab", True),
        (r"(?i)a(?-i)b", b"aB", False),
        (r"[[:alnum:]_[]+\z", b"a_[1", True),
        (r"\Qa.b\E", b"axb", False),
        (r"(?<n>x)\x60", b"x`", True),
        (r"caf\x{e9}", "café".encode(), True),
        (r"[]a]+", b"]a", True),
        (r"[&&~~||]", b"|", True),
        (r"\/\-\#", b"/-#", True),
    ],
)
def test_go_syntax_means_the_same_here(go: str, text: bytes, *, found: bool) -> None:
    assert bool(compile_go(go).fullmatch(text)) is found


@pytest.mark.parametrize("go", [r"(?U)a", r"(?U:a)", r"\pL", r"[[:no:]]", "[é]", "(", r"\C"])
def test_what_has_no_equal_is_refused(go: str) -> None:
    with pytest.raises(UnsupportedRegex):
        compile_go(go)


@given(st.text(max_size=30))
def test_a_rewritten_literal_matches_itself(text: str) -> None:
    quoted = re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", text)
    assert re.fullmatch(to_python(quoted).encode(), text.encode("utf-8", "replace"), re.DOTALL)


words = st.text("abk_-.T", min_size=1, max_size=4)


def keyed(number: int, keyword: str) -> Rule:
    """Make a rule that wants to look wherever its keyword stands."""
    return Rule(id=f"{number}", regex=re.compile(b"x"), keywords=(keyword.encode(),))


@given(st.lists(words, max_size=6), st.text("abkABK_-.tT ", max_size=40))
def test_every_keyword_is_found_wherever_it_stands(keywords: list[str], text: str) -> None:
    rules = [keyed(number, word) for number, word in enumerate(keywords)]
    expected = {
        (at, at + len(word), rule.id)
        for rule, word in zip(rules, keywords, strict=True)
        for at in range(len(text))
        if text.lower().startswith(word.lower(), at)
    }
    plan = make_plan(rules)
    found = [hit for some in hits(plan, text.encode()) for hit in some]
    looks = [(start, -behind, rule.id) for start, behind, n in found for rule in plan.rules[n]]
    assert set(looks) == expected
    assert len(looks) == len(expected)
    assert [start for start, _, _ in found] == sorted(start for start, _, _ in found)


@given(st.sampled_from(["corp-key", "c", "co"]), st.integers(-10, 10), st.integers(1, 3))
def test_a_keyword_is_found_once_in_the_middle_of_a_long_text(
    keyword: str, shift: int, pieces: int
) -> None:
    start = pieces * (1 << 18) + shift
    text = b"x" * start + keyword.encode() + b"x" * 100
    plan = make_plan([keyed(1, keyword), keyed(2, "corp-key")])
    hit = [one for some in hits(plan, text) for one in some]
    found = [(at, rule.id) for at, _, n in hit for rule in plan.rules[n]]
    assert [at for at, name in found if name == "1"] == [start]
