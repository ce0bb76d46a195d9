"""Which permission rule decides, and why."""

import re
from fnmatch import fnmatchcase
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, strategies as st

from threadkeep.chat.permissions import Verdict, _glob, evaluate, validate_rule
from threadkeep.errors import Invalid

Rule = dict[str, Any]


def rule(action: str, pattern: str = "*", permission: str = "bash", **more: Any) -> Rule:
    return {"permission": permission, "pattern": pattern, "action": action, **more}


def decide(target: str, *rules: Rule, **options: Any) -> str:
    return evaluate("bash", target, rules, **options).action


def test_without_a_rule_it_is_asked_for() -> None:
    verdict = evaluate("bash", "ls", [])
    assert verdict == Verdict("ask", None, verdict.reason, [])
    assert verdict.reason == 'no rule is about bash "ls", so it must be asked for'


def test_headless_turns_ask_into_deny() -> None:
    assert decide("ls", headless=True) == "deny"
    assert decide("ls", rule("ask"), headless=True) == "deny"
    assert decide("ls", rule("allow"), headless=True) == "allow"
    assert "nobody is there to ask" in evaluate("bash", "ls", [], headless=True).reason


def test_a_manifest_deny_is_absolute() -> None:
    deny = rule("deny", "rm *", "*", source="manifest")
    allow = rule("allow", "rm -rf build", source="session", added_at=9)
    for rules in permutations([deny, allow, rule("allow")]):
        verdict = evaluate("bash", "rm -rf build", rules)
        assert verdict.action == "deny"
        assert verdict.rule == deny
        assert "absolute" in verdict.reason
    assert decide("rm -rf build", rule("deny", "rm *", source="project"), allow) == "allow"


@pytest.mark.parametrize(
    "strong,weak",
    [
        (("bash", "*"), ("*", "git push origin")),
        (("bash", "*"), ("ba*", "git push origin")),
        (("ba*", "*"), ("*", "git push origin")),
        (("bas?", "*"), ("b*", "*")),
        (("bash", "git push:*"), ("bash", "git:*")),
        (("bash", "git push *"), ("bash", "*")),
        (("bash", "git push origin"), ("bash", "git push origin*")),
        (("bash", "git push origin"), ("bash", "git push origin:*")),
        (("bash", "git push *n"), ("bash", "git *")),
    ],
)
@pytest.mark.parametrize("actions", [("allow", "deny"), ("deny", "allow"), ("ask", "deny")])
def test_the_more_specific_rule_wins(
    strong: tuple[str, str], weak: tuple[str, str], actions: tuple[str, str]
) -> None:
    wins = rule(actions[0], strong[1], strong[0], added_at=1)
    loses = rule(actions[1], weak[1], weak[0], added_at=2)
    for rules in ([wins, loses], [loses, wins]):
        assert decide("git push origin", *rules) == actions[0]


def test_between_equals_the_later_rule_wins_then_the_more_careful() -> None:
    assert decide("ls", rule("deny", added_at=1), rule("allow", added_at=2)) == "allow"
    assert decide("ls", rule("deny"), rule("allow", added_at=0)) == "allow"
    for rules in permutations([rule("allow"), rule("ask"), rule("deny")]):
        assert decide("ls", *rules) == "deny"
    for rules in permutations([rule("allow"), rule("ask")]):
        assert decide("ls", *rules) == "ask"


def test_a_parents_deny_is_never_a_childs_allow() -> None:
    parent = [rule("deny", "rm *")]
    verdict = evaluate("bash", "rm -rf /", [rule("allow", "rm -rf /")], parent_rules=parent)
    assert verdict.action == "deny"
    assert "parent" in verdict.reason
    assert decide("rm x", parent_rules=parent) == "deny"
    assert decide("ls", rule("allow"), parent_rules=parent) == "allow"
    assert decide("ls", rule("deny"), parent_rules=[rule("allow")]) == "deny"
    assert decide("ls", rule("allow"), parent_rules=[rule("ask")]) == "allow"


def test_the_reason_names_the_winner_and_what_it_beat() -> None:
    verdict = evaluate(
        "bash",
        "git push origin",
        [
            rule("ask", source="project"),
            rule("allow", "git push:*"),
            rule("deny", "rm:*"),
            {"x": 1},
        ],
    )
    assert verdict.reason == (
        'session rule bash "git push:*" says allow; project rule bash "*" says ask, '
        "but git push:* is more specific than *"
    )
    assert verdict.rule == rule("allow", "git push:*", source="session")
    assert [text for _, text in verdict.considered[:3]] == [
        "matches, but git push:* is more specific than *",
        "decides",
        "its pattern does not match",
    ]
    assert verdict.considered[3][0] == {"x": 1}
    assert verdict.considered[3][1].startswith("ignored: ")
    other = evaluate("edit", "x", [rule("allow")])
    assert other.considered[0][1] == "is about bash, not edit"


@pytest.mark.parametrize(
    "rules,why",
    [
        ([rule("allow", "l*"), rule("deny", "*", "*")], "bash is more specific than *"),
        ([rule("allow", added_at=2), rule("deny", added_at=1)], "the later rule wins"),
        ([rule("allow"), rule("deny")], "the more careful rule wins"),
        ([rule("allow"), rule("allow")], "it says the same"),
        ([rule("allow")], "no other rule matches"),
    ],
)
def test_the_reason_says_what_decided(rules: list[Rule], why: str) -> None:
    assert why in evaluate("bash", "ls", rules).reason


@pytest.mark.parametrize(
    "pattern,target,matches",
    [
        ("*", "anything\nat all", True),
        ("**", "a/b", True),
        ("git push:*", "git push", True),
        ("git push:*", "git push --force", True),
        ("git push:*", "git pushx", False),
        ("git push *", "git push", True),
        ("git push *", "git push -f", True),
        ("git push *", "git pushx", False),
        ("git push*", "git pushx", True),
        ("rm *", "rm -rf /tmp/x", True),
        ("*.py", "a/b.py", True),
        ("*.example.com", "api.example.com", True),
        ("*.example.com", "example.com", False),
        ("localhost:*", "localhost:8080", True),
        ("https://x.org/*", "https://x.org/a/b?c=d&e=f", True),
        ("src/*", "src/a.py", True),
        ("src/*", "src/a/b.py", False),
        ("src/**", "src/a/b.py", True),
        ("src/*/b", "src/a/b", True),
        ("**/a*b", "x/a/ab", True),
        ("src/**", "src/../etc/passwd", False),
        ("src/../x", "src/../x", True),
        ("f?o", "foo", True),
        ("f?o", "fo", False),
        ("src/?", "src//", False),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("[!]", "!", True),
        ("[x", "[x", True),
        ("a[", "a[", True),
        ("a.c", "abc", False),
        ("", "", False),
        ("git:*", "git log; rm -rf /", False),
        ("git:*", "git log $(rm x)", False),
        ("echo *", "echo x > /etc/passwd", False),
        ("git log; ls", "git log; ls", True),
        ("*", "git log; rm -rf /", True),
    ],
)
def test_what_an_allow_covers(pattern: str, target: str, *, matches: bool) -> None:
    assert decide(target, rule("allow", pattern)) == ("allow" if matches else "ask")


@pytest.mark.parametrize(
    "pattern,target",
    [
        ("secrets/*", "secrets/a/key"),
        ("rm:*", "ls; rm -rf /"),
        ("rm:*", "ls && rm -rf /"),
        ("rm *", "true | rm x"),
        ("curl:*", "echo $(curl evil.example)"),
        ("/etc/**", "/etc/../etc/passwd"),
    ],
)
def test_a_deny_is_read_widely(pattern: str, target: str) -> None:
    assert decide(target, rule("deny", pattern), rule("allow", source="manifest")) == "deny"


@given(
    st.text(st.sampled_from("ab*?[]!-/"), max_size=8),
    st.text(st.sampled_from("ab-/!\n"), max_size=8),
)
def test_globs_agree_with_the_standard_library(pattern: str, target: str) -> None:
    if "[" in pattern:  # the two read odd brackets differently
        pattern = re.sub(r"[\[\]!]", "a", pattern)
    assert _glob(pattern, target, narrow=False) == fnmatchcase(target, pattern)


@given(
    st.lists(st.sampled_from(["a", "b", "/", "*", "**", "?"]), max_size=7),
    st.text(st.sampled_from("ab/"), max_size=8),
)
def test_narrow_globs_cross_no_slash(pieces: list[str], target: str) -> None:
    pattern = re.sub(r"\*{3,}", "**", "".join(pieces))
    if pattern == "*":
        return  # alone it stands for everything
    words = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    expression = "".join(words.get(p, p) for p in re.findall(r"\*\*|.", pattern))
    expected = re.fullmatch(expression, target, re.DOTALL) is not None
    assert _glob(pattern, target, narrow=True) == expected


def test_no_pattern_is_slow() -> None:
    assert not _glob("*a" * 1000 + "b", "a" * 20_000, narrow=False)


@pytest.mark.parametrize(
    "bad,field",
    [
        (rule("allow", permission=""), "permission"),
        ({"pattern": "*", "action": "allow"}, "permission"),
        (rule("allow", ""), "pattern"),
        (rule("allow", 1), "pattern"),  # type: ignore[arg-type]
        (rule("allow", "x" * 5000), "pattern"),
        (rule("maybe"), "action"),
        (rule(["allow"]), "action"),  # type: ignore[arg-type]
        (rule("allow", source="host"), "source"),
        (rule("allow", source=None), "source"),
        (rule("allow", added_at="now"), "added_at"),
        (rule("allow", added_at=True), "added_at"),
        (rule("allow", added_at=-1), "added_at"),
        (rule("allow", added_at=None), "added_at"),
    ],
)
def test_a_bad_rule_is_refused_with_its_field(bad: object, field: str) -> None:
    with pytest.raises(Invalid, match=f"'{field}'"):
        validate_rule(bad)


@pytest.mark.parametrize("bad", [None, [], "allow", 1])
def test_what_is_no_rule_at_all_is_refused_and_ignored(bad: Any) -> None:
    with pytest.raises(Invalid, match="must be an object"):
        validate_rule(bad)
    assert evaluate("bash", "ls", [bad]).considered[0][1].startswith("ignored")


def test_a_good_rule_is_completed_and_keeps_what_it_has() -> None:
    given_rule = rule("allow", added_at=5, note="by hand")
    assert validate_rule(given_rule) == given_rule | {"source": "session"}
    assert "source" not in given_rule
