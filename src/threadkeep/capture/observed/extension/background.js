// Takes visits from pages, keeps them until the host has them, and answers the popup.

import { makeHost } from "./host.js";
import { put, refused, taken } from "./outbox.js";
import { watchOpenPages, watchPages } from "./pages.js";
import {
  allowedDomains,
  configOf,
  domainsOf,
  hostOf,
  isListed,
  messageOf,
  patternOf,
  plainDomain,
  whyNot,
  whyOff,
} from "./rules.js";
import { makeStore } from "./store.js";

const api = globalThis.browser ?? globalThis.chrome;
const store = makeStore(api.storage.local);
const host = makeHost(api.runtime);

const BEAT = "heartbeat";
const RESUME = "resume";
const BEAT_MINUTES = 5;
const PAUSE_MS = 60 * 60 * 1000;
const BUILT_IN = domainsOf(api.runtime.getManifest().host_permissions);

const settings = async () => [await store.read("choices"), await store.read("config")];

const dayOf = (date) => `${date.getFullYear()}-${date.getMonth() + 1}-${date.getDate()}`;

// Make runs of a task follow one another; one that fails is told, and does not hold up the next.
const oneByOne = (task) => {
  let last = Promise.resolve();
  return () => {
    last = last.then(task).catch((error) => console.error(error));
    return last;
  };
};

// ---- the host

const ask = async (message) => {
  try {
    const reply = await host.ask(message);
    await store.change("host", () => ({ reached: true, problem: "" }));
    return reply;
  } catch (error) {
    await store.change("host", () => ({ reached: false, problem: error.message }));
    return null;
  } finally {
    await showBadge();
  }
};

const askConfig = async () => {
  const reply = await ask({ type: "config" });
  const config = reply && configOf(reply);
  if (!config) return;
  await store.change("config", () => config);
  await watchAllowed();
};

const beat = (enabled) =>
  ask({
    type: "heartbeat",
    extension_version: api.runtime.getManifest().version,
    enabled_state: enabled,
    sent_at_ms: Date.now(),
  });

// A heartbeat, the newest settings, and what could not be sent before. Silent while the user wants nothing sent.
const callHost = async () => {
  const [choices] = await settings();
  if (["off", "paused"].includes(whyOff(choices, { enabled: true }, Date.now()))) return;
  if ((await beat(true)) === null) return;
  await askConfig();
  await deliver();
};

const deliver = oneByOne(async () => {
  const { items } = await store.read("outbox");
  for (const { message } of items) {
    const [choices, config] = await settings();
    if (whyOff(choices, config, Date.now()) !== null) return;
    const reply = await ask(message);
    if (reply === null) return;
    await store.change("outbox", (box) => (reply.status === "error" ? refused : taken)(box, message));
    if (reply.status === "ok") await countSent();
  }
});

const countSent = () =>
  store.change("sent", ({ day, count }) => {
    const today = dayOf(new Date());
    return { day: today, count: day === today ? count + 1 : 1 };
  });

// ---- pages

const watchAllowed = oneByOne(async () => {
  const [choices, config] = await settings();
  const isOff = whyOff(choices, config, Date.now()) !== null;
  await watchPages(api, isOff ? [] : allowedDomains(choices, config, BUILT_IN), config.exclude);
  await showBadge();
});

const rulesFor = async (sender) => {
  const [choices, config] = await settings();
  const capture = whyNot(hostOf(sender.url), choices, config, BUILT_IN, Date.now()) === null;
  return { capture, minDwellMs: config.minDwellMs };
};

const takeVisit = async (visit, sender) => {
  const message = messageOf(visit);
  const { capture, minDwellMs } = await rulesFor(sender);
  // A page speaks for its own site only, whatever its process has become.
  if (!capture || message?.domain !== hostOf(sender.url) || message.dwell_ms < minDwellMs) return false;
  await store.change("outbox", (box) => put(box, message));
  deliver();
  return true;
};

// Only the main frame has the content script; its frame id is no longer 0 when it reports from the back/forward cache.
const fromPage = (request, sender) => {
  if (request.kind === "rules") return rulesFor(sender);
  if (request.kind === "visit") return takeVisit(request.visit, sender);
  return null;
};

// ---- the popup

const BADGES = { off: ["off", "#6b6b6b"], paused: ["||", "#6b6b6b"], "configured-off": ["off", "#6b6b6b"] };
const UNREACHED = ["!", "#b3261e"];

const showBadge = async () => {
  const [choices, config] = await settings();
  const { reached } = await store.read("host");
  const off = BADGES[whyOff(choices, config, Date.now())];
  const [text, color] = off ?? (reached === false ? UNREACHED : ["", "#6b6b6b"]);
  await api.action.setBadgeText({ text });
  await api.action.setBadgeBackgroundColor({ color });
};

const status = async (url) => {
  const [choices, config] = await settings();
  const [outbox, sent, reach] = await Promise.all(["outbox", "sent", "host"].map(store.read));
  const domain = hostOf(url);
  const why = whyNot(domain, choices, config, BUILT_IN, Date.now());
  const permitted = why !== null || (await api.permissions.contains({ origins: [patternOf(domain)] }));
  return {
    enabled: choices.enabled,
    pausedUntil: choices.pausedUntil > Date.now() ? choices.pausedUntil : 0,
    host: reach,
    waiting: outbox.items.length,
    dropped: outbox.dropped,
    sentToday: sent.day === dayOf(new Date()) ? sent.count : 0,
    page: { domain, why: why ?? (permitted ? null : "no-permission") },
    // The host takes no visits of a site that is not in its own list.
    hostLacks: why === null && config.domains !== null && !isListed(domain, config.domains),
  };
};

const choose = async (changed) => {
  const before = whyOff(...(await settings()), Date.now());
  await store.change("choices", changed);
  const after = whyOff(...(await settings()), Date.now());
  if (before === null && after !== null) await beat(false); // the last word before silence
  await watchAllowed();
  if (after === null) await callHost();
};

const addDomain = async (text) => {
  const domain = plainDomain(text);
  if (domain === null) return;
  await choose((choices) => ({ ...choices, asked: null, added: [...new Set([...choices.added, domain])] }));
  await watchOpenPages(api, [domain]);
};

const pause = async (until) => {
  await api.alarms.create(RESUME, { when: until });
  await choose((choices) => ({ ...choices, pausedUntil: until }));
};

const fromPopup = (request) => {
  const { kind, url, domain, on } = request;
  if (kind === "status") return status(url);
  if (kind === "call") return callHost();
  if (kind === "switch") return choose((choices) => ({ ...choices, enabled: on === true, pausedUntil: 0 }));
  if (kind === "pause") return pause(Date.now() + PAUSE_MS);
  if (kind === "resume") return choose((choices) => ({ ...choices, pausedUntil: 0 }));
  if (kind === "asked") return store.change("choices", (choices) => ({ ...choices, asked: plainDomain(domain) }));
  if (kind === "add") return addDomain(domain);
  return null;
};

// ---- wiring: all of it at once, or a woken background misses what woke it

api.runtime.onMessage.addListener((request, sender, answer) => {
  if (sender.id !== api.runtime.id || typeof request?.kind !== "string") return false;
  const isOurs = sender.url?.startsWith(api.runtime.getURL(""));
  const done = isOurs ? fromPopup(request) : fromPage(request, sender);
  Promise.resolve(done).then((value) => answer(value ?? null), (error) => {
    console.error(error);
    answer(null);
  });
  return true;
});

api.alarms.onAlarm.addListener(({ name }) => {
  if (name === BEAT) callHost();
  if (name === RESUME) watchAllowed().then(callHost);
});

// Firefox closes the popup when it asks for a permission, so the answer is heard here.
api.permissions.onAdded.addListener(async ({ origins = [] }) => {
  const { asked } = await store.read("choices");
  if (domainsOf(origins).includes(asked)) await addDomain(asked);
});

api.permissions.onRemoved.addListener(({ origins = [] }) => {
  const removed = domainsOf(origins);
  choose((choices) => ({ ...choices, added: choices.added.filter((domain) => !removed.includes(domain)) }));
});

const start = async () => {
  if (!(await api.alarms.get(BEAT))) await api.alarms.create(BEAT, { periodInMinutes: BEAT_MINUTES });
  await watchAllowed();
  await callHost();
};

api.runtime.onInstalled.addListener(start);
api.runtime.onStartup.addListener(start);

// Pages cannot read what other pages left in the outbox (Firefox has no such switch, nor do its pages need it).
api.storage.local.setAccessLevel?.({ accessLevel: "TRUSTED_CONTEXTS" });
