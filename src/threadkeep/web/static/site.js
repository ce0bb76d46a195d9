// What every page can do: the palette, help, keys, copying, and a word now and then.

const $ = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// ------------------------------------------------------------------------------------------ words

let fading = 0;
function say(text) {
  const place = $("#said");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(fading);
  fading = setTimeout(() => place.classList.remove("shown"), 3500);
}
document.addEventListener("say", (event) => say(event.detail));

// --------------------------------------------------------------------------------------- copying

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    say("The browser does not allow copying here.");
  }
}

async function textToCopy(button) {
  if (button.dataset.copy) return button.dataset.copy;
  const holder = button.closest("[data-copied]") ?? button.closest("pre,article,.block");
  const whole = button.dataset.source ?? holder.querySelector("[data-whole]")?.dataset.whole;
  if (whole) {
    const answer = await fetch(whole);
    if (answer.ok) return (await answer.json()).message.text;
  }
  const block = holder.closest(".block"); // a subagent's blocks stand within one, and are not meant
  const texts = all("[data-text]", holder).filter((one) => one.closest(".block") === block);
  return (texts.length ? joined(texts) : holder.textContent).trim();
}

// Each text begins on a line of its own; the unfolded rest of one goes on where it was folded.
function joined(texts) {
  return texts.reduce((sum, { textContent, parentElement }) => {
    const goesOn = !sum || sum.endsWith("\n") || parentElement.matches(".rest");
    return sum + (goesOn ? "" : "\n") + textContent;
  }, "");
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  event.preventDefault();
  copy(await textToCopy(button));
});
document.addEventListener("copy-text", (event) => copy(event.detail));

// -------------------------------------------------------------------------------- menus, dialogs

document.addEventListener("click", (event) => {
  const opener = event.target.closest?.("[data-opens]");
  if (opener) return open(opener.dataset.opens);
  const dialog = event.target.closest?.("dialog");
  if (dialog && event.target === dialog) dialog.close(); // beside it
  if (event.target.closest?.("[data-closes]")) dialog?.close();
  for (const menu of all("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

function open(name) {
  const dialog = document.getElementById(name);
  if (!dialog.open) dialog.showModal();
  if (name === "palette") search("");
}

// --------------------------------------------------------------------------------------- palette

const field = $("#palette-field");
const found = $("#palette-found");
const pages = all("nav.pages a").map((link) => ({
  name: link.textContent.trim(), address: link.getAttribute("href"), note: "page",
}));
let chosen = 0;
let asked = 0;
let asking = null;

function search(text) {
  const wanted = text.trim().toLowerCase();
  const near = pages.filter((page) => page.name.toLowerCase().includes(wanted));
  if (!text) field.value = "";
  show(near);
  clearTimeout(asked);
  asked = setTimeout(() => sessions(text.trim(), near), wanted ? 120 : 0);
}

async function sessions(text, near) {
  asking?.abort();
  asking = new AbortController();
  const address = new URL("/sessions.json", location.href);
  address.search = new URLSearchParams({ q: text, limit: "12", only: "list" });
  try {
    const answer = await fetch(address, { signal: asking.signal });
    if (!answer.ok) return;
    const { page } = await answer.json();
    const more = text
      ? [{ name: `Recall “${text}”`, address: `/recall?q=${encodeURIComponent(text)}`, note: "search everything" }]
      : [];
    const choices = page.items.map(asChoice);
    const named = choices.filter((choice) => choice.name.toLowerCase().includes(text.toLowerCase()));
    const others = choices.filter((choice) => !named.includes(choice));
    show([...near, ...named, ...others, ...more]);
  } catch (error) {
    if (error.name !== "AbortError") say("The list of sessions could not be read.");
  }
}

function asChoice(item) {
  const { session } = item;
  return {
    name: session.title || session.first_prompt || session.slug || session.session_id,
    address: `/sessions/${encodeURIComponent(item.ref)}`,
    note: [session.agent, session.project.split("/").pop()].filter(Boolean).join(" · "),
  };
}

function show(choices) {
  found.replaceChildren(...choices.map((choice, number) => {
    const row = document.createElement("li");
    row.role = "option";
    row.id = `palette-${number}`;
    row.dataset.address = choice.address;
    const name = document.createElement("span");
    name.textContent = choice.name;
    const note = document.createElement("span");
    note.className = "muted";
    note.textContent = choice.note;
    row.append(name, note);
    return row;
  }));
  choose(0);
}

function choose(number) {
  const rows = all("li", found);
  chosen = rows.length ? (number + rows.length) % rows.length : 0;
  rows.forEach((row, at) => row.setAttribute("aria-selected", String(at === chosen)));
  rows[chosen]?.scrollIntoView({ block: "nearest" });
  field.setAttribute("aria-activedescendant", rows.length ? rows[chosen].id : "");
}

function go(row) {
  if (row) location.href = row.dataset.address;
}

field.addEventListener("input", () => search(field.value));
field.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp") choose(chosen - 1);
  else if (event.key === "Enter") go(all("li", found)[chosen]);
  else return;
  event.preventDefault();
});
found.addEventListener("click", (event) => go(event.target.closest("li")));

// The choices beside a list follow what is typed above it.
$("#results")?.addEventListener("hx:swapped", (event) => {
  if (event.target.id === "results") $("#facets")?.dispatchEvent(new CustomEvent("refresh"));
});

// ------------------------------------------------------------------------------------------ keys

const rows = () => all("[data-row]");

function step(by) {
  const places = rows();
  if (!places.length) return;
  const at = places.indexOf(document.activeElement);
  const next = places[Math.min(places.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
  next.focus({ preventScroll: true });
  next.closest("li,tr,article")?.scrollIntoView({ block: "nearest" });
}

function find() {
  const place = $("[data-find]") ?? $("#search");
  place.focus();
  place.select?.();
}

const follow = (rel) => $(`a[rel~="${rel}"]`)?.click();
const KEYS = {
  "/": find,
  "?": () => open("help"),
  j: () => step(1),
  k: () => step(-1),
  "[": () => follow("prev"),
  "]": () => follow("next"),
  e: () => {
    const menu = $("details.menu.export");
    if (!menu) return;
    menu.open = !menu.open;
    $("a", menu)?.focus();
  },
  y: () => copy(location.href),
};

function typing(target) {
  return target.isContentEditable || target.matches?.("input:not([type=checkbox]),textarea,select");
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    return open("palette");
  }
  if (event.key === "Escape") {
    for (const menu of all("details.menu[open]")) {
      menu.open = false;
      if (menu.contains(document.activeElement)) $("summary", menu).focus();
    }
    // A search field keeps Escape for itself while there are words in it.
    const dialog = event.target.closest?.("dialog[open]");
    if (dialog) {
      event.preventDefault();
      dialog.close();
    } else if (typing(event.target)) event.target.blur();
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing(event.target) || $("dialog[open]")) return;
  // A page may have a meaning of its own for a key.
  const own = new CustomEvent("key", { detail: event.key, cancelable: true });
  if (!document.dispatchEvent(own)) return event.preventDefault();
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

// On a narrow screen the pages are a row that is pushed aside: the one that is open is seen.
const pageRow = $("nav.pages");
const openPage = $("[aria-current]", pageRow);
if (openPage) pageRow.scrollLeft = openPage.offsetLeft - pageRow.offsetLeft - (pageRow.clientWidth - openPage.offsetWidth) / 2;

// ------------------------------------------------------------------------------------------ demo

$("[data-own-history]")?.addEventListener("click", async ({ target }) => {
  target.disabled = true;
  say("Looking for agent logs…");
  const answer = await fetch("/own-history", {
    method: "POST",
    headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: "{}",
  });
  const told = await answer.json();
  if (answer.ok) location.href = "/";
  else say([told.message, told.hint].filter(Boolean).join(". "));
  target.disabled = false;
});

// -------------------------------------------------------------------------------------- projects

async function changeProject(method, address, body, name) {
  const answer = await fetch(address, {
    method,
    headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const told = await answer.json();
  if (!answer.ok) return say([told.message, told.hint].filter(Boolean).join(". "));
  location.href = name ? `/projects/${encodeURIComponent(name)}` : "/projects";
}

document.addEventListener("submit", (event) => {
  const name = event.target.dataset?.rename;
  if (!name) return;
  event.preventDefault();
  const to = event.target.elements.to.value.trim();
  changeProject("PATCH", `/api/projects/${encodeURIComponent(name)}`, { to }, to);
});
document.addEventListener("click", (event) => {
  const name = event.target.closest?.("[data-split]")?.dataset.split;
  if (name) changeProject("POST", `/api/projects/${encodeURIComponent(name)}/split`, {}, "");
});
