// One session: moving in it, finding, following what is written while one reads.

const session = document.querySelector("[data-session]");
const place = document.getElementById("transcript");
const button = document.getElementById("follow");
const toNew = document.getElementById("to-new");
const here = `/sessions/${encodeURIComponent(session.dataset.session)}`;
const raw = new URLSearchParams(location.search).get("raw") === "1";

// Many blocks that come at once stand in a piece: the browser leaves out whole pieces. Of 5,000
// blocks one by one it took 90 ms to leave out those that are not on the screen, at every frame.
const BLOCK = ".transcript > .block, .transcript > .piece > .block";
const blocks = () => [...place.querySelectorAll(BLOCK)].filter((one) => one.checkVisibility());
const say = (text) => document.dispatchEvent(new CustomEvent("say", { detail: text }));

// ------------------------------------------------------------------------------------- moving

let current = null;

function be(block, { scroll = true } = {}) {
  if (!block) return;
  current?.classList.remove("is-here");
  current = block;
  block.classList.add("is-here");
  if (!scroll) return;
  bring(block);
  block.focus({ preventScroll: true });
}

function atTop() {
  const line = 120;
  return blocks().find((one) => one.getBoundingClientRect().bottom > line) ?? null;
}

function move(by, only = "") {
  const list = blocks().filter((one) => !only || one.matches(only));
  const from = current?.isConnected && onScreen(current) ? current : atTop();
  if (!from) return;
  let at = list.indexOf(from);
  if (at < 0) {
    const after = list.findIndex((one) => Number(one.dataset.pos) > Number(from.dataset.pos));
    at = by > 0 ? (after < 0 ? list.length : after) - 1 : after < 0 ? list.length : after;
  }
  be(list[at + by]);
}

function onScreen(block) {
  const box = block.getBoundingClientRect();
  return box.bottom > 0 && box.top < innerHeight;
}

// What comes near the screen gets its real height only then, so a way is gone in several steps;
// whoever sets out last is right, and a reader who moves by hand ends it.
let way = 0;
for (const kind of ["wheel", "touchstart", "pointerdown", "keydown"]) {
  addEventListener(kind, () => { way += 1; }, { capture: true, passive: true });
}

// An element is brought to the top, a word that was found into the middle.
function bring(aim, tries = 4, mine = ++way) {
  if (mine !== way) return;
  if (aim instanceof Range) scrollBy({ top: aim.getBoundingClientRect().top - innerHeight / 2, behavior: "instant" });
  else aim.scrollIntoView({ block: "start", behavior: "instant" });
  if (tries) requestAnimationFrame(() => bring(aim, tries - 1, mine));
}

function unfold(from) {
  for (let at = from; at && at !== place; at = at.parentElement) if (at.matches("details")) at.open = true;
}

function goTo(anchor, { words = false } = {}) {
  const found = document.getElementById(anchor);
  if (!found) return false;
  unfold(found.parentElement);
  const fold = found.querySelector(":scope > .fold");
  if (fold) fold.open = true;
  history.replaceState(null, "", `#${anchor}`);
  be(found.closest(".block"), { scroll: false });
  bring((words && light(found)) || found);
  return true;
}

session.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-turn-link],a[data-spot]");
  if (link && goTo(link.hash.slice(1), { words: "spot" in link.dataset })) {
    event.preventDefault();
    return;
  }
  const block = event.target.closest(BLOCK);
  if (block) be(block, { scroll: false });
  const keeps = event.target.closest("[data-keeps-place]");
  const top = keeps && atTop();
  if (top) {
    const address = new URL(keeps.href);
    address.searchParams.set("at", top.dataset.key);
    address.hash = top.id;
    keeps.href = address;
  }
});

// The rail shows the turn that is read.
const linkOf = (turn) => session.querySelector(`[data-turn-link="${CSS.escape(turn)}"]`);
let marked = "";
let looking = false;
addEventListener("scroll", () => {
  if (looking) return;
  looking = true;
  requestAnimationFrame(() => {
    looking = false;
    const found = document.elementFromPoint(place.getBoundingClientRect().left + 40, 160)?.closest(BLOCK);
    if (!found || found.dataset.turn === marked) return;
    const link = linkOf(found.dataset.turn);
    if (!link) return;
    linkOf(marked)?.removeAttribute("aria-current");
    link.setAttribute("aria-current", "true");
    marked = found.dataset.turn;
    const rail = link.closest(".rail");
    const top = link.offsetTop - rail.offsetTop;
    if (top < rail.scrollTop || top > rail.scrollTop + rail.clientHeight - 60) rail.scrollTop = top - rail.clientHeight / 3;
  });
}, { passive: true });

// ------------------------------------------------------------------------------------ finding

let spot = -1;
const allSpots = () => [...session.querySelectorAll("[data-spot]")];

function beAt(number) {
  const spots = allSpots();
  spot = number;
  for (const one of spots) one.removeAttribute("aria-current");
  spots[spot]?.setAttribute("aria-current", "true");
  document.getElementById("spot").textContent = spots[spot] ? `${spot + 1}/${spots.length}` : "";
  return spots[spot];
}

function nextSpot(by) {
  const count = allSpots().length;
  if (!count) return;
  const link = beAt(spot < 0 && by < 0 ? count - 1 : (spot + by + count) % count);
  if (!goTo(link.dataset.spot, { words: true })) location.href = withWords(link.href);
}

// The words that were looked for are lit where they stand, without touching the text; what hides
// the first of them is unfolded, and it is given back.
function light(element) {
  const words = document.getElementById("find").value.trim().toLowerCase();
  if (!words || !CSS.highlights) return null;
  const ranges = [];
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node && ranges.length < 500; node = texts.nextNode()) {
    const text = node.data.toLowerCase();
    if (text.length !== node.data.length) continue;
    for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + words.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + words.length);
      ranges.push(range);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
  if (ranges.length) unfold(ranges[0].startContainer.parentElement);
  return ranges[0] ?? null;
}

function withWords(address) {
  const url = new URL(address);
  url.searchParams.set("words", document.getElementById("find").value);
  return url;
}

document.getElementById("found").addEventListener("hx:swapped", () => beAt(-1));
document.getElementById("find").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  event.stopPropagation();
  nextSpot(event.shiftKey ? -1 : 1);
});

// ---------------------------------------------------------------------------- results to calls

// A result that comes in a later piece than its call is put beneath it.
function settle(added) {
  const all = added.flatMap((one) => (one.matches?.(".piece") ? [...one.children] : [one]));
  for (const result of all.filter((one) => one.matches?.(".results.block[data-of]"))) {
    const id = result.dataset.of;
    const call = id && place.querySelector(`[data-call="${CSS.escape(id)}"]`);
    if (call && !call.querySelector(":scope > .result")) {
      result.classList.remove("block");
      result.classList.add("result");
      call.append(result);
    }
  }
}
place.addEventListener("hx:swapped", (event) => settle(event.detail.added));

// ---------------------------------------------------------------------------------- following

let following = false;
let fetching = false;
let again = false;
let unseen = 0;

function setFollowing(on) {
  following = on;
  button.setAttribute("aria-pressed", String(on));
  if (!on) return;
  if (place.querySelector(":scope > .more.later")) {
    location.href = `${here}?end=1&follow=1${raw ? "&raw=1" : ""}`;
    return;
  }
  toEnd();
  say("Following. New messages appear as they are written.");
}

function toEnd(tries = 12, mine = ++way) {
  if (mine !== way) return;
  scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
  if (tries) requestAnimationFrame(() => toEnd(tries - 1, mine));
  toNew.hidden = true;
  unseen = 0;
}

const atEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 160;

function lastPosition() {
  const all = [...place.querySelectorAll(":is(.transcript, .piece) > [data-pos], :is(.transcript, .piece) > .block > .result[data-pos]")];
  return all.reduce((most, one) => Math.max(most, Number(one.dataset.pos)), -1);
}

async function fetchNew() {
  if (fetching) {
    again = true;
    return;
  }
  fetching = true;
  try {
    do {
      again = false;
      await appendNew();
    } while (again);
  } finally {
    fetching = false;
  }
}

const hasEnd = () => !place.querySelector(":scope > .more.later");

// Who reads where the end is not on the page yet is told, too; the button leads there.
async function countNew() {
  const answer = await fetch(`${here}/messages.json?limit=1`, { headers: { Accept: "application/json" } });
  if (!answer.ok) return;
  const { window: { total } } = await answer.json();
  offer(total - Number(place.dataset.total));
  document.getElementById("facts").dispatchEvent(new CustomEvent("refresh"));
}

function offer(count) {
  unseen = count;
  toNew.querySelector("span").textContent = `${unseen} new`;
  toNew.hidden = unseen < 1;
}

async function appendNew() {
  if (!hasEnd()) return countNew();
  const last = lastPosition();
  const address = `${here}/messages?side=later${last < 0 ? "" : `&after=${last}`}${"kids" in session.dataset ? "&kids=1" : ""}${raw ? "&raw=1" : ""}`;
  const answer = await fetch(address, { headers: { "HX-Request": "true", Accept: "text/html" } });
  if (!answer.ok) return;
  const holder = document.createElement("template");
  holder.innerHTML = await answer.text();
  const added = [...holder.content.children];
  if (!added.some((one) => one.matches(".block, .piece"))) return;
  const wasAtEnd = atEnd();
  place.querySelector(":scope > .fresh")?.remove();
  const line = document.createElement("p");
  line.className = "fresh";
  line.textContent = "new messages";
  place.append(line, holder.content);
  settle(added);
  for (const one of added) one.dispatchEvent(new CustomEvent("hx:process", { bubbles: true }));
  document.getElementById("facts").dispatchEvent(new CustomEvent("refresh"));
  if (following || wasAtEnd) return toEnd();
  offer(unseen + added.length);
}

session.addEventListener("live", fetchNew);
button.addEventListener("click", () => setFollowing(!following));
toNew.addEventListener("click", () => {
  if (!hasEnd()) {
    location.href = `${here}?end=1${raw ? "&raw=1" : ""}`;
    return;
  }
  (place.querySelector(":scope > .fresh") ?? document.getElementById("end")).scrollIntoView({ block: "start" });
  toNew.hidden = true;
  unseen = 0;
});
addEventListener("scroll", () => {
  if (!toNew.hidden && atEnd()) {
    toNew.hidden = true;
    unseen = 0;
  }
}, { passive: true });
addEventListener("wheel", (event) => { if (following && event.deltaY < 0) setFollowing(false); }, { passive: true });

// --------------------------------------------------------------------------------------- keys

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  J: () => move(1, ".prompts"),
  K: () => move(-1, ".prompts"),
  n: () => nextSpot(1),
  N: () => nextSpot(-1),
  f: () => setFollowing(!following),
  y: () => {
    const block = current?.isConnected && onScreen(current) ? current : atTop();
    const link = block?.querySelector("a.link");
    document.dispatchEvent(new CustomEvent("copy-text", { detail: link ? link.href : location.href }));
  },
};
document.addEventListener("key", (event) => {
  const act = KEYS[event.detail];
  if (!act) return;
  event.preventDefault();
  act();
});

// ------------------------------------------------------------------------------------ arriving

if (matchMedia("(max-width: 60rem)").matches) session.querySelector("details.turns").open = false;
const wanted = place.querySelector(".is-target") ?? (location.hash ? document.getElementById(location.hash.slice(1)) : null);
if (wanted) {
  const block = wanted.closest(".block") ?? wanted;
  be(block, { scroll: false });
  bring(light(wanted) ?? wanted);
  beAt(allSpots().findIndex((one) => one.dataset.spot === wanted.id));
}
if ("follow" in session.dataset) setFollowing(true);
else if (new URLSearchParams(location.search).has("end")) toEnd();
