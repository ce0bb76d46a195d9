// Suggestions below a filter bar: the keys of the language, and the values that occur; of all
// sessions (`data-suggest="all"`), or of those that the rest of the bar means.

const field = document.querySelector("[data-suggest]");
const list = document.getElementById("suggested");
const KEYS = ["agent", "project", "model", "branch", "tag", "is", "sort", "since", "until", "on", "cost", "tokens", "messages", "errors", "minutes"];
const VALUES = {
  is: ["live", "failed", "starred", "subagent", "hidden", "all"],
  sort: ["cost", "tokens", "messages", "prompts", "tools", "errors", "minutes"],
  since: ["today", "yesterday", "7d", "30d"],
  on: ["today", "yesterday"],
};
const MOST = 12;
let chosen = -1;
let kept = { q: null, facets: {} };
let latest = 0;

function tokenAt() {
  const before = field.value.slice(0, field.selectionStart ?? field.value.length);
  const text = /\S*$/.exec(before)[0];
  return { text, start: before.length - text.length, end: before.length };
}

async function valuesOf(key, token) {
  if (VALUES[key]) return VALUES[key].map((name) => ({ name }));
  const all = field.dataset.suggest === "all";
  const rest = all ? "" : `${field.value.slice(0, token.start)} ${field.value.slice(token.end)}`.trim();
  if (kept.q !== rest) {
    const answer = await fetch(`/sessions/facets.json?${new URLSearchParams({ q: rest })}`);
    if (!answer.ok) return [];
    const { facets } = await answer.json();
    kept = { q: rest, facets: Object.fromEntries(facets.map((one) => [one.name, one.choices])) };
  }
  return kept.facets[key] ?? [];
}

async function suggest() {
  const mine = ++latest;
  const token = tokenAt();
  const [, minus, key, typed] = /^(-?)([a-z]+):"?(.*)$/i.exec(token.text) ?? [];
  if (key === undefined) {
    const keys = token.text.length > 1 ? KEYS.filter((one) => one.startsWith(token.text.toLowerCase())) : [];
    return show(keys.map((one) => ({ text: `${one}:`, token })));
  }
  const found = await valuesOf(key.toLowerCase(), token);
  if (mine !== latest) return;
  const wanted = typed.toLowerCase();
  const near = found.filter(({ name }) => name.toLowerCase().includes(wanted) && name !== typed);
  const begins = ({ name }) => (name.toLowerCase().startsWith(wanted) ? 0 : 1);
  show(near.sort((a, b) => begins(a) - begins(b)).slice(0, MOST).map(({ name, count }) => ({
    text: `${minus}${key}:${/[\s"\\]/.test(name) ? JSON.stringify(name) : name}`, count, token,
  })));
}

function show(choices) {
  chosen = -1;
  list.replaceChildren(...choices.map(({ text, count, token }, number) => {
    const row = document.createElement("li");
    row.role = "option";
    row.id = `suggested-${number}`;
    row.append(text);
    if (count != null) {
      const muted = document.createElement("span");
      muted.className = "muted num";
      muted.textContent = count;
      row.append(muted);
    }
    row.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // the field keeps the focus
      take(text, token);
    });
    row.take = () => take(text, token);
    return row;
  }));
  list.hidden = !choices.length;
  field.setAttribute("aria-expanded", String(choices.length > 0));
  field.removeAttribute("aria-activedescendant");
}

function take(text, token) {
  const space = text.endsWith(":") ? "" : " ";
  field.setRangeText(text + space, token.start, token.end, "end");
  show([]);
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

function choose(number) {
  const rows = [...list.children];
  chosen = (number + rows.length) % rows.length;
  rows.forEach((row, at) => row.setAttribute("aria-selected", String(at === chosen)));
  field.setAttribute("aria-activedescendant", rows[chosen].id);
  rows[chosen].scrollIntoView({ block: "nearest" });
}

field.addEventListener("input", suggest);
field.addEventListener("focus", () => field.value && suggest());
field.addEventListener("blur", () => show([]));
field.addEventListener("keydown", (event) => {
  if (list.hidden) return;
  if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp") choose(chosen < 0 ? -1 : chosen - 1);
  else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) list.children[chosen].take();
  else if (event.key === "Escape") {
    latest++;
    show([]);
    event.stopPropagation(); // the field keeps what is typed, and the focus
  } else return;
  event.preventDefault();
});
