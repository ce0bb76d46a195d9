// The list renews itself while its top is looked at. Who has scrolled or stands on a row is asked
// first: nothing moves under a reader.

const news = document.getElementById("news");
const results = document.getElementById("results");

function renew() {
  news.hidden = true;
  news.dispatchEvent(new CustomEvent("refresh"));
}

const isRead = () => scrollY > 100 || results.contains(document.activeElement);

news?.addEventListener("live", () => {
  if (isRead()) news.hidden = false;
  else renew();
});
news?.querySelector("button").addEventListener("click", () => {
  scrollTo({ top: 0, behavior: "instant" });
  renew();
});

// ------------------------------------------------------------------------------------ saved views

const views = document.getElementById("views");
const filter = document.getElementById("filter");

function kept() {
  try {
    const found = JSON.parse(localStorage.getItem("views") ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch { return []; }
}

function keep(all) {
  try { localStorage.setItem("views", JSON.stringify(all)); } catch { say("This browser cannot save views."); }
  list();
}

const here = () => location.search;

function list() {
  const chips = kept().map(({ name, address }) => {
    const chip = document.createElement("span");
    chip.className = "chip view";
    const link = document.createElement("a");
    link.href = `/sessions${address}`;
    link.textContent = name;
    if (address === here()) link.setAttribute("aria-current", "true");
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "plain";
    remove.textContent = "×";
    remove.setAttribute("aria-label", `Remove the view ${name}`);
    remove.addEventListener("click", () => keep(kept().filter((one) => one.name !== name)));
    chip.append(link, remove);
    return chip;
  });
  views.querySelector(".names").replaceChildren(...chips);
}

const naming = document.getElementById("view-name");
document.addEventListener("click", (event) => {
  if (!event.target.closest?.("[data-save-view]")) return;
  naming.querySelector("input").value = filter.value;
  naming.showModal();
});
naming?.addEventListener("close", () => {
  const name = naming.querySelector("input").value.trim();
  if (naming.returnValue !== "save" || !name) return;
  naming.returnValue = "";
  keep([...kept().filter((one) => one.name !== name), { name, address: here() }]);
});
if (views) list();

// ------------------------------------------------------------------------------ selected sessions

const bar = document.getElementById("picked");
const forgetting = document.getElementById("forgetting");
const tagging = document.getElementById("tagging");
const picks = () => [...document.querySelectorAll(".pick")];
const refs = () => picks().filter((one) => one.checked).map((one) => one.value);
const say = (text) => document.dispatchEvent(new CustomEvent("say", { detail: text }));

function counted() {
  const chosen = refs();
  bar.hidden = !chosen.length;
  bar.querySelector("strong").textContent = `${chosen.length} selected`;
  const several = new URLSearchParams(chosen.map((ref) => ["ref", ref]));
  bar.querySelector("[data-act=export]").href = `/sessions/export?${several}`;
  const compare = bar.querySelector("[data-act=compare]");
  compare.hidden = chosen.length !== 2;
  compare.href = `/compare?${new URLSearchParams({ left: chosen[0] ?? "", right: chosen[1] ?? "" })}`;
}

function toAll(change, done) {
  const chosen = refs();
  const told = `${chosen.length} ${chosen.length === 1 ? "session" : "sessions"} ${done}.`;
  document.dispatchEvent(new CustomEvent("put-labels", { detail: { refs: chosen, change, told } }));
}

async function forget(dry) {
  const answer = await fetch("/api/forget", {
    method: "POST",
    headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: JSON.stringify({ session: refs(), dry_run: dry }),
  });
  const told = await answer.json();
  if (!answer.ok) throw new Error([told.message, told.hint].filter(Boolean).join(". "));
  return told.forgotten;
}

async function foresee() {
  try {
    const forgotten = await forget(true);
    const parts = ["sessions", "entries", "nodes", "observed"].filter((name) => forgotten[name])
      .map((name) => `${forgotten[name]} ${{ entries: "messages", observed: "commands, visits and runs" }[name] ?? name}`);
    forgetting.querySelector("output").textContent = `${parts.join(", ") || "Nothing"} would be deleted for good.`;
    forgetting.showModal();
  } catch (error) {
    say(error.message);
  }
}

forgetting?.addEventListener("close", async () => {
  if (forgetting.returnValue !== "forget") return;
  forgetting.returnValue = "";
  try {
    const forgotten = await forget(false);
    say(`${forgotten.sessions} ${forgotten.sessions === 1 ? "session" : "sessions"} forgotten.`);
    renew();
  } catch (error) {
    say(error.message);
  }
});
tagging?.addEventListener("close", () => {
  const tags = tagging.querySelector("input").value.split(/[\s,]+/).filter(Boolean);
  if (tagging.returnValue === "save" && tags.length) toAll({ add: tags }, "tagged");
  tagging.returnValue = "";
});

const ACTS = {
  star: () => toAll({ star: true }, "starred"),
  tag: () => tagging.showModal(),
  forget: foresee,
  clear: () => { for (const one of picks()) one.checked = false; before = new Set(); counted(); },
};
bar?.addEventListener("click", (event) => ACTS[event.target.closest("[data-act]")?.dataset.act]?.());
results?.addEventListener("change", (event) => event.target.matches(".pick") && counted());
// The list renews itself; what was selected and is still there stays selected.
let before = new Set();
results?.addEventListener("change", () => { before = new Set(refs()); });
results?.addEventListener("hx:swapped", () => {
  for (const one of picks()) one.checked = before.has(one.value);
  counted();
});
document.addEventListener("key", (event) => {
  if (event.detail !== "x") return;
  const pick = document.activeElement?.closest("li")?.querySelector(".pick");
  if (!pick) return;
  event.preventDefault();
  pick.checked = !pick.checked;
  pick.dispatchEvent(new Event("change", { bubbles: true }));
});
