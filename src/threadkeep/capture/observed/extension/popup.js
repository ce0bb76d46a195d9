// Shows what happens to the page in front, and lets the user decide.

import { patternOf } from "./rules.js";

const api = globalThis.browser ?? globalThis.chrome;
const isFirefox = api.runtime.getManifest().browser_specific_settings !== undefined;
const element = (id) => document.getElementById(id);
const tell = (request) => api.runtime.sendMessage(request);

const REASONS = {
  off: "you switched it off",
  paused: "it is paused",
  "configured-off": "[browser] enabled is false in the configuration of threadkeep",
  "no-page": "it is not a web page",
  excluded: "its site is excluded in the configuration of threadkeep",
  "not-listed": "its site is not in the list",
  "no-permission": "the browser does not let threadkeep see this site yet",
};

const pageText = ({ page, hostLacks }) => {
  if (page.why !== null) return `This page is not kept: ${REASONS[page.why]}.`;
  if (hostLacks) return "This page is not kept: the list in the configuration of threadkeep lacks its site.";
  return "This page is kept when you have read it.";
};

const hostText = ({ reached }) => {
  if (reached === null) return "not asked yet";
  return reached ? "connected" : "not reached";
};

const waitingText = ({ waiting, dropped }) => (dropped > 0 ? `${waiting} (${dropped} given up)` : `${waiting}`);

const show = (status) => {
  const { page, host, hostLacks } = status;
  for (const control of document.querySelectorAll("input, button")) control.disabled = false;
  element("enabled").checked = status.enabled;
  element("page").textContent = pageText(status);
  element("hint").hidden = !hostLacks;
  element("hint").textContent = `Add "${page.domain}" to domains under [browser] there.`;
  element("add").hidden = !["not-listed", "no-permission"].includes(page.why);
  element("add").textContent = `Keep pages of ${page.domain}`;
  element("pause").textContent = status.pausedUntil ? "Go on now" : "Pause for an hour";
  element("pause").hidden = !status.enabled;
  element("sent").textContent = `${status.sentToday}`;
  element("waiting").textContent = waitingText(status);
  element("host").textContent = hostText(host);
  element("host").title = host.problem;
  element("missing").hidden = host.reached !== false;
  element("command").textContent = `threadkeep browser install ${isFirefox ? "firefox" : "chromium"}`;
};

const [tab] = await api.tabs.query({ active: true, currentWindow: true });
let shown = null;

const refresh = async () => {
  shown = await tell({ kind: "status", url: tab?.url });
  show(shown);
};

const act = async (request) => {
  await tell(request);
  await refresh();
};

element("enabled").addEventListener("change", ({ target }) => act({ kind: "switch", on: target.checked }));
element("pause").addEventListener("click", () => act({ kind: shown.pausedUntil ? "resume" : "pause" }));
element("add").addEventListener("click", async () => {
  const { domain } = shown.page;
  tell({ kind: "asked", domain }); // not waited for: browsers take the question only while they handle the click
  if (await api.permissions.request({ origins: [patternOf(domain)] })) await act({ kind: "add", domain });
});

await refresh();
await act({ kind: "call" }); // whoever looks wants to know how it is now
