// Watches one page of an allowed site: how long it is on the screen, how far it is read, and what it says.
// Nothing is reported before the background has answered that this page may be.
"use strict";

var threadkeepStop = ((running) => {
  if (running) return running; // this page is watched already

  const api = globalThis.browser ?? globalThis.chrome;
  const { getter, cut, text } = threadkeepReadable;
  const TITLE_BYTES = 4 * 1024;
  const URL_CHARACTERS = 8 * 1024;

  const titleOf = getter(Document.prototype, "title");
  const referrerOf = getter(Document.prototype, "referrer");
  const visibilityOf = getter(Document.prototype, "visibilityState");
  const rootOf = getter(Document.prototype, "documentElement");
  const heightOf = getter(Element.prototype, "scrollHeight");

  const stopping = new AbortController();
  const clock = () => ({ wall: Date.now(), tick: performance.now() });
  const isVisible = () => visibilityOf(document) === "visible";

  let minDwellMs = Infinity; // until the background has answered
  let visit = threadkeepVisit.begin(location.href, referrerOf(document), isVisible(), clock());

  const stop = () => {
    stopping.abort();
    threadkeepStop = undefined;
  };

  // Throws at once when the extension was updated or removed under this page.
  const send = (message) => {
    try {
      return api.runtime.sendMessage(message).catch(() => undefined);
    } catch {
      stop();
      return Promise.resolve(undefined);
    }
  };

  const askRules = async () => {
    const rules = await send({ kind: "rules" });
    if (rules?.capture) minDwellMs = rules.minDwellMs;
    else stop();
  };

  const measure = () => {
    visit = threadkeepVisit.scroll(visit, scrollY + innerHeight);
  };

  const report = () => {
    const now = clock();
    if (!threadkeepVisit.isDue(visit, minDwellMs, now) || visit.url.length > URL_CHARACTERS) return;
    const dwellMs = threadkeepVisit.dwell(visit, now);
    visit = { ...visit, reportedMs: dwellMs };
    send({
      kind: "visit",
      visit: {
        url: visit.url,
        title: cut(titleOf(document), TITLE_BYTES),
        dwell_ms: dwellMs,
        scroll_depth: threadkeepVisit.depth(visit, heightOf(rootOf(document))),
        extracted_text: text(),
        referrer: visit.referrer.length > URL_CHARACTERS ? "" : visit.referrer,
        timestamp: visit.startedAt, // the same for each report of this visit
      },
    });
  };

  const onHide = () => {
    measure();
    visit = threadkeepVisit.hide(visit, clock());
    report();
  };

  const onShow = () => {
    visit = threadkeepVisit.show(visit, clock());
  };

  // Pages of one site that change their address without being reloaded.
  const onAddress = () => {
    if (location.href === visit.url) return;
    measure();
    report();
    visit = threadkeepVisit.begin(location.href, visit.url, isVisible(), clock());
  };

  const onReturn = (event) => {
    if (!event.persisted) return; // not taken from the back/forward cache
    visit = threadkeepVisit.begin(location.href, visit.referrer, isVisible(), clock());
  };

  const listen = (target, type, handler) => {
    const trusted = (event) => event.isTrusted && handler(event); // a page can make events up
    EventTarget.prototype.addEventListener.call(target, type, trusted, {
      capture: true, // before the page's own handlers, which may stop an event
      passive: true,
      signal: stopping.signal,
    });
  };
  listen(window, "visibilitychange", () => (isVisible() ? onShow() : onHide()));
  listen(window, "focus", () => isVisible() && onShow());
  listen(window, "pagehide", onHide);
  listen(window, "pageshow", onReturn);
  listen(window, "scroll", measure);
  listen(window, "popstate", onAddress);
  listen(window, "hashchange", onAddress);
  // Firefox before 147 has no such thing: there a page that moves without a load is one visit.
  if (globalThis.navigation) listen(navigation, "currententrychange", onAddress);

  api.runtime.onMessage.addListener((message) => {
    if (message?.kind === "changed" && !stopping.signal.aborted) askRules();
  });
  askRules();
  return stop;
})(threadkeepStop);
