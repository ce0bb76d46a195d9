// One stream of changes while the page is looked at. A browser opens six connections to a server
// and no more, so a page in the background gives its own back.
//
// An element with `data-live` is sent the event `live` when something changes; with a value
// (`data-live="codex:abc"`) only when that session does.

const MOST_OFTEN = 1000;
let stream = null;
let waiting = 0;
let refs = new Set();

function connect() {
  if (stream || document.hidden || !document.querySelector("[data-live]")) return;
  stream = new EventSource("/events");
  stream.addEventListener("change", (event) => {
    for (const ref of JSON.parse(event.data).sessions) refs.add(ref);
    waiting ||= setTimeout(tell, MOST_OFTEN);
  });
  stream.addEventListener("open", () => document.documentElement.classList.add("connected"));
  stream.addEventListener("error", () => document.documentElement.classList.remove("connected"));
}

function leave() {
  stream?.close();
  stream = null;
  document.documentElement.classList.remove("connected");
}

function tell() {
  waiting = 0;
  const changed = refs;
  refs = new Set();
  for (const element of document.querySelectorAll("[data-live]")) {
    if (!element.dataset.live || changed.has(element.dataset.live)) {
      element.dispatchEvent(new CustomEvent("live", { detail: [...changed] }));
    }
  }
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return leave();
  for (const element of document.querySelectorAll("[data-live]")) {
    element.dispatchEvent(new CustomEvent("live", { detail: [] })); // what was missed meanwhile
  }
  connect();
});
addEventListener("pagehide", leave);
addEventListener("pageshow", connect);
connect();
