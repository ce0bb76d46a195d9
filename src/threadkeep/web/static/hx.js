// Pages are written with htmx's attributes; this is the part of them that the site uses.
//
// hx-get, hx-post     the address; a POST sends its values as JSON
// hx-trigger          events, by comma: `click`, `input changed delay:150ms`, `revealed`, `load`,
//                     `every 60s`, `toggle once`, any other event of the element
// hx-target           a selector, `this`, `closest X`, `find X`, `next X`
// hx-swap             innerHTML (default), outerHTML, beforeend, afterend, beforebegin, none
// hx-select           takes only these elements of the answer
// hx-include          a form or fields whose values are sent along
// hx-vals             further values, as JSON
// hx-push-url         true: the address is put into the address bar
// hx-confirm          a question that is asked first
//
// `hx:swapped` is sent at the target (or its parent) after new content is in place.

const WITH = "[hx-get],[hx-post]";
const running = new WeakMap();
const seen = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      send(entry.target);
    }
  },
  { rootMargin: "1500px 0px" },
);

function triggers(element) {
  const usual = element.matches("form") ? "submit"
    : element.matches("input,select,textarea") ? "change" : "click";
  return (element.getAttribute("hx-trigger") || usual).split(",").map((text) => {
    const words = text.trim().split(/\s+/);
    const delay = words.find((word) => word.startsWith("delay:"));
    return {
      event: words[0],
      every: words[0] === "every" ? duration(words[1]) : 0,
      changed: words.includes("changed"),
      once: words.includes("once"),
      delay: delay ? duration(delay.slice(6)) : 0,
    };
  });
}

function duration(text) {
  return parseFloat(text) * (text.endsWith("ms") ? 1 : 1000);
}

function begin(element) {
  if (element.dataset.hx) return;
  element.dataset.hx = "on";
  for (const one of triggers(element)) listen(element, one);
}

function listen(element, one) {
  if (one.event === "revealed") return seen.observe(element);
  if (one.event === "load") return void send(element);
  if (one.every) return every(element, one.every);
  let timer = 0;
  let last = element.value;
  element.addEventListener(one.event, (event) => {
    if (one.event === "click" && (event.ctrlKey || event.metaKey || event.shiftKey)) return;
    if (one.event === "click" || one.event === "submit") event.preventDefault();
    if (one.changed && element.value === last) return;
    last = element.value;
    clearTimeout(timer);
    if (one.delay) timer = setTimeout(() => send(element), one.delay);
    else send(element);
  }, { once: one.once });
}

function every(element, wait) {
  const timer = setInterval(() => {
    if (!element.isConnected) clearInterval(timer);
    else if (!document.hidden) send(element);
  }, wait);
}

function targetOf(element) {
  const words = element.getAttribute("hx-target") || "this";
  const [how, ...rest] = words.split(" ");
  const selector = rest.join(" ");
  if (words === "this") return element;
  if (how === "closest") return element.closest(selector);
  if (how === "find") return element.querySelector(selector);
  if (how === "next") {
    const all = [...document.querySelectorAll(selector)];
    return all.find((one) => element.compareDocumentPosition(one) & 4) ?? null;
  }
  return document.querySelector(words);
}

function valuesOf(element) {
  const values = new Map();
  const included = element.getAttribute("hx-include");
  const sources = included ? [...document.querySelectorAll(included)] : [];
  for (const source of [element, ...sources]) {
    if (source.matches("form")) for (const [name, value] of new FormData(source)) values.set(name, value);
    else if (source.name && "value" in source) values.set(source.name, source.value);
  }
  const more = element.getAttribute("hx-vals");
  if (more) for (const [name, value] of Object.entries(JSON.parse(more))) values.set(name, value);
  return values;
}

async function send(element) {
  if (!element.isConnected) return;
  const question = element.getAttribute("hx-confirm");
  if (question && !window.confirm(question)) return;
  const post = element.getAttribute("hx-post");
  const address = new URL(post ?? element.getAttribute("hx-get"), location.href);
  const values = valuesOf(element);
  if (post === null) {
    for (const [name, value] of values) {
      if (value === "") address.searchParams.delete(name);
      else address.searchParams.set(name, value);
    }
  }
  running.get(element)?.abort();
  const control = new AbortController();
  running.set(element, control);
  const target = targetOf(element);
  target?.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address, {
      method: post === null ? "GET" : "POST",
      headers: {
        "HX-Request": "true",
        Accept: "text/html",
        ...(post === null ? {} : { "Content-Type": "application/json" }),
      },
      body: post === null ? undefined : JSON.stringify(Object.fromEntries(values)),
      signal: control.signal,
    });
    if (answer.status === 401) return location.reload(); // logged out: the server says what helps
    const text = await answer.text();
    if (!answer.ok) throw new Error(said(text) || `the server answered ${answer.status}`);
    if (target) swap(element, target, text);
    if (element.getAttribute("hx-push-url") === "true") history.replaceState(null, "", address);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!document.hidden) toast(error.message);
    if (element.getAttribute("hx-trigger")?.includes("revealed")) element.classList.add("failed");
  } finally {
    if (running.get(element) === control) target?.removeAttribute("aria-busy");
  }
}

function said(text) {
  const holder = document.createElement("template");
  holder.innerHTML = text;
  return holder.content.querySelector(".problem p")?.textContent ?? "";
}

function swap(element, target, text) {
  const holder = document.createElement("template");
  holder.innerHTML = text;
  let fresh = holder.content;
  const chosen = element.getAttribute("hx-select");
  if (chosen) {
    const kept = [...fresh.querySelectorAll(chosen)];
    fresh = document.createDocumentFragment();
    fresh.append(...kept);
  }
  const added = [...fresh.children];
  const how = element.getAttribute("hx-swap") || "innerHTML";
  const around = target.parentElement ?? document.body;
  if (how === "none") return;
  const still = element.matches(".earlier") ? holdStill(target.nextElementSibling) : null;
  if (how === "outerHTML") target.replaceWith(fresh);
  else if (how === "beforeend") target.append(fresh);
  else if (how === "afterend") target.after(fresh);
  else if (how === "beforebegin") target.before(fresh);
  else target.replaceChildren(fresh);
  for (const one of added) process(one);
  still?.();
  const at = target.isConnected ? target : around;
  at.dispatchEvent(new CustomEvent("hx:swapped", { bubbles: true, detail: { added } }));
}

// What is put in above must not move what is read. The browser sees to that by itself, but not at
// the very top of a page; and what comes near the screen gets its real height only then.
function holdStill(element) {
  if (!element) return null;
  const root = document.documentElement;
  const before = element.getBoundingClientRect().top;
  let left = 12;
  let place = scrollY;
  const hold = () => {
    if (left-- > 0 && scrollY === place && element.isConnected) {
      scrollBy({ top: element.getBoundingClientRect().top - before, behavior: "instant" });
      place = scrollY;
      requestAnimationFrame(hold);
    } else root.style.overflowAnchor = ""; // done, or somebody scrolls
  };
  root.style.overflowAnchor = "none";
  return hold;
}

function process(root) {
  if (root.matches?.(WITH)) begin(root);
  for (const one of root.querySelectorAll(WITH)) begin(one);
}

function toast(text) {
  document.dispatchEvent(new CustomEvent("say", { detail: text }));
}

document.addEventListener("hx:process", (event) => process(event.target));
process(document.body);
