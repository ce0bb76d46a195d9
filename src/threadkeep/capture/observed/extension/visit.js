// One visit: an address, and how long it was on the screen. Pure functions, the clocks are arguments.
// A plain script, not a module: content scripts cannot be modules. `var`, since it may be put into a page twice.
"use strict";

var threadkeepVisit = (() => {
  // A tab that comes back after this long is read again, not still.
  const LONG_AWAY_MS = 30 * 60 * 1000;

  // `now` has `wall` (epoch milliseconds) and `tick` (a clock that is never set).
  const begin = (url, referrer, visible, now) => ({
    url,
    referrer,
    startedAt: now.wall,
    shownMs: 0,
    shownSince: visible ? now.tick : null,
    leftAt: visible ? null : now.wall,
    lowest: 0, // the lowest pixel of the page that was on the screen
    reportedMs: -1,
  });

  const dwell = (visit, now) => {
    const current = visit.shownSince === null ? 0 : Math.max(0, now.tick - visit.shownSince);
    return Math.round(visit.shownMs + current);
  };

  const hide = (visit, now) =>
    visit.shownSince === null
      ? visit
      : { ...visit, shownMs: dwell(visit, now), shownSince: null, leftAt: now.wall };

  const show = (visit, now) => {
    if (visit.shownSince !== null) return visit;
    const fresh = now.wall - visit.leftAt > LONG_AWAY_MS;
    return fresh
      ? begin(visit.url, visit.referrer, true, now)
      : { ...visit, shownSince: now.tick, leftAt: null };
  };

  const scroll = (visit, bottom) => ({ ...visit, lowest: Math.max(visit.lowest, bottom) });

  const depth = (visit, height) => {
    const share = height > 0 ? visit.lowest / height : 0;
    return Math.round(Math.min(1, Math.max(0, share)) * 10_000) / 10_000;
  };

  // Reported when it was long enough, and again only when it has become longer.
  const isDue = (visit, minDwellMs, now) => {
    const ms = dwell(visit, now);
    return ms >= minDwellMs && ms > visit.reportedMs;
  };

  return { begin, depth, dwell, hide, isDue, scroll, show };
})();
