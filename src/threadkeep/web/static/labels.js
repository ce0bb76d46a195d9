// Stars, tags and notes of sessions and messages, wherever they stand.
//
// [data-star=REF]    a button that stars and takes the star away
// [data-labels=REF]  where tags and note are shown; its button [data-edit] opens the dialog
// `put-labels`       an event with refs, what is to change, and what is said then
//
// A message gets its line of labels when something is put on it.

const dialog = document.getElementById("label");
const say = (text) => document.dispatchEvent(new CustomEvent("say", { detail: text }));
let edited = "";

async function ask(method, address, body) {
  const answer = await fetch(address, {
    method,
    headers: { Accept: "application/json", ...(body ? { "Content-Type": "application/json" } : {}) },
    body: body && JSON.stringify(body),
  });
  const told = await answer.json();
  if (!answer.ok) throw new Error([told.message, told.hint].filter(Boolean).join(". ") || `the server answered ${answer.status}`);
  return told;
}

function put(ref, change) {
  return ask("PATCH", `/api/labels/${encodeURIComponent(ref)}`, change);
}

const within = (root, name, ref) =>
  [...root.querySelectorAll(`[data-${name}]`)].filter((one) => one.dataset[name] === ref);

function made(tag, css, text) {
  const element = document.createElement(tag);
  element.className = css;
  element.textContent = text;
  return element;
}

function editor() {
  const button = made("button", "plain small", "Tags and note…");
  button.type = "button";
  button.dataset.edit = "";
  return button;
}

function lineOf(star, ref) {
  const line = made("p", "labels", "");
  line.dataset.labels = ref;
  star.closest("article,.result")?.append(line);
  return line;
}

function show(ref, labels) {
  for (const star of within(document, "star", ref)) {
    star.setAttribute("aria-pressed", String(labels.starred));
    if (!within(document, "labels", ref).length) lineOf(star, ref);
  }
  for (const line of within(document, "labels", ref)) {
    const tags = labels.tags.map((tag) => {
      const link = made("a", "chip tag", `#${tag}`);
      link.href = `/sessions?q=${encodeURIComponent(`tag:${tag}`)}`;
      return link;
    });
    const note = labels.note ? [made("span", "note-text", labels.note)] : [];
    line.replaceChildren(...tags, ...note, editor());
  }
}

async function change(refs, what, told) {
  try {
    for (const ref of refs) show(ref, await put(ref, what));
    say(told);
  } catch (error) {
    say(error.message);
  }
}

const toggle = (star) => {
  const starred = star.getAttribute("aria-pressed") !== "true";
  change([star.dataset.star], { star: starred }, starred ? "Starred." : "Star removed.");
};

async function edit(ref) {
  edited = ref;
  try {
    const labels = await ask("GET", `/api/labels/${encodeURIComponent(ref)}`);
    dialog.querySelector("[name=tags]").value = labels.tags.join(" ");
    dialog.querySelector("[name=note]").value = labels.note;
    dialog.dataset.tags = labels.tags.join(" ");
    dialog.showModal();
  } catch (error) {
    say(error.message);
  }
}

const words = (text) => text.split(/[\s,]+/).map((one) => one.replace(/^#/, "").toLowerCase()).filter(Boolean);

dialog.addEventListener("close", () => {
  if (dialog.returnValue !== "save") return;
  dialog.returnValue = "";
  const now = words(dialog.querySelector("[name=tags]").value);
  const before = words(dialog.dataset.tags);
  change([edited], {
    add: now.filter((tag) => !before.includes(tag)),
    remove: before.filter((tag) => !now.includes(tag)),
    note: dialog.querySelector("[name=note]").value,
  }, "Saved.");
});

document.addEventListener("put-labels", ({ detail }) => change(detail.refs, detail.change, detail.told));
document.addEventListener("click", (event) => {
  const star = event.target.closest?.("[data-star]");
  if (star) return toggle(star);
  const button = event.target.closest?.("[data-edit]");
  if (button) edit(button.closest("[data-labels]").dataset.labels);
});

// `s` stars what has the focus: a row, a message; else the session that is open.
document.addEventListener("key", (event) => {
  if (event.detail !== "s") return;
  const around = document.activeElement?.closest("article,li");
  const star = around?.querySelector("[data-star]") ?? document.querySelector(".session-head [data-star]");
  if (!star) return;
  event.preventDefault();
  toggle(star);
});
