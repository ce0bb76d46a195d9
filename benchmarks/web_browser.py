"""A browser that opens a long session and scrolls to its end, and what it noticed of long tasks."""

import shutil
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urljoin

if TYPE_CHECKING:
    from playwright.sync_api import Page

_FLAGS: Final = (
    *("--disable-gpu", "--no-first-run", "--no-sandbox", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
# Written before the page's own scripts: what is painted and what takes long is noted from then on.
_NOTE: Final = """
window.noted = { tasks: [], block: null };
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) noted.tasks.push(one.duration);
}).observe({ type: "longtask", buffered: true });
const look = () => {
  const block = document.querySelector("#transcript .block");
  if (block && block.getBoundingClientRect().height > 0) noted.block = performance.now();
  else requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""
_PAINTED: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"
# One screen after another, as fast as the page keeps up: what is missing is fetched on the way.
_SCROLL: Final = """async () => {
  const began = performance.now();
  const more = () => document.querySelector("#transcript > .more.later");
  const root = document.documentElement;
  while (more() || innerHeight + scrollY < root.scrollHeight - 4) {
    scrollBy({ top: innerHeight * 0.9, behavior: "instant" });
    await new Promise(requestAnimationFrame);
    if (performance.now() - began > 60000) break;
  }
  return performance.now() - began;
}"""


class Seen(NamedTuple):
    """What a browser noticed; times are in milliseconds since the page was asked for."""

    painted: float
    first_block: float
    scrolled: float
    blocks: int
    tasks: int  # over 50 ms, while scrolling
    longest_task: float


def browse_long_session(link: str, path: str) -> Seen | None:
    """Open a session with a one-time link and scroll to its end; None without a browser."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415  (a tool of the tests)
    except ImportError:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        try:
            page = browser.new_page()
            page.goto(link)
            page.add_init_script(_NOTE)
            page.goto(urljoin(page.url, path))  # the link led to another host
            return _look(page)
        finally:
            browser.close()


def _look(page: "Page") -> Seen:
    page.wait_for_function("noted.block !== null")
    painted, block = page.evaluate(_PAINTED), page.evaluate("noted.block")
    page.evaluate("noted.tasks.length = 0")
    page.set_default_timeout(0)
    scrolled = page.evaluate(_SCROLL)
    tasks: list[float] = page.evaluate("noted.tasks")
    blocks = page.locator("#transcript .block").count()
    return Seen(painted, block, scrolled, blocks, len(tasks), max(tasks, default=0.0))
