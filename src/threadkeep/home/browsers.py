"""How browsers are told about a home, and how one that calls is answered."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from threadkeep.base.clock import now_ms
from threadkeep.collect.browsers import (
    BrowserInstallPlan,
    InstallContext,
    install,
    packaged_extension,
    plan_install,
    plan_uninstall,
    uninstall,
)
from threadkeep.collect.native_host import ByteSink, ByteSource, check_caller, serve
from threadkeep.collect.visits import VisitRules, rules_of

if TYPE_CHECKING:
    from threadkeep.home.facade import Home


def surroundings(home: "Home") -> InstallContext:
    """Describe this machine and this home for an installation."""
    return InstallContext(home.environ, sys.platform, sys.executable, home.paths().data)


def plan_for(home: "Home", browser: str, *, hippo: bool = False) -> BrowserInstallPlan:
    """Say what to write so that a browser finds this home; nothing is written yet."""
    return plan_install(browser, surroundings(home), packaged_extension(), hippo=hippo)


def carry_out(plan: BrowserInstallPlan, *, replace: bool = False) -> tuple[Path, ...]:
    """Write what a plan says; give the files that are new or changed."""
    return install(plan, replace=replace)


def plan_removal(home: "Home", browser: str) -> tuple[Path, ...]:
    """Name what belongs to this browser alone; nothing is removed yet."""
    return plan_uninstall(browser, surroundings(home))


def remove_from(home: "Home", browser: str) -> tuple[Path, ...]:
    """Remove what belongs to this browser alone; give the paths."""
    return uninstall(browser, surroundings(home))


def visit_rules(home: "Home") -> VisitRules:
    """Say which pages are kept."""
    return rules_of(home.config.browser)


def serve_browser(
    home: "Home", arguments: Sequence[str], stdin: ByteSource, stdout: ByteSink
) -> None:
    """Answer a browser until it closes its side; what it reports goes into the spool."""
    check_caller(arguments)
    reporter = home.reporter()
    serve(stdin, stdout, reporter.visits, reporter.report, now_ms)
