// Which pages have the content script: new ones by registration, open ones at once.

import { patternOf } from "./rules.js";

const ID = "pages";
const FILES = ["visit.js", "readable.js", "content.js"];

const registered = async (scripting) => (await scripting.getRegisteredContentScripts({ ids: [ID] }))[0] ?? null;

const sameList = (one, other) => JSON.stringify([...(one ?? [])].sort()) === JSON.stringify([...(other ?? [])].sort());

// Make the registration what it should be; tells whether it had to be changed.
const register = async (scripting, matches, excludeMatches) => {
  const now = await registered(scripting);
  if (matches.length === 0) {
    if (now !== null) await scripting.unregisterContentScripts({ ids: [ID] });
    return now !== null;
  }
  if (now && sameList(now.matches, matches) && sameList(now.excludeMatches, excludeMatches)) return false;
  if (now !== null) await scripting.unregisterContentScripts({ ids: [ID] });
  const script = { id: ID, js: FILES, matches, runAt: "document_start", allFrames: false };
  if (excludeMatches.length > 0) script.excludeMatches = excludeMatches;
  await scripting.registerContentScripts([script]);
  return true;
};

// Tell pages that are watched to ask again, and watch open ones that are not yet.
const refresh = async (api, matches) => {
  const told = (await api.tabs.query({})).map((tab) =>
    api.tabs.sendMessage(tab.id, { kind: "changed" }).catch(() => undefined),
  );
  await Promise.all(told);
  if (matches.length === 0) return;
  const injected = (await api.tabs.query({ url: matches })).map((tab) =>
    api.scripting.executeScript({ target: { tabId: tab.id }, files: FILES }).catch(() => undefined),
  );
  await Promise.all(injected);
};

// Watch the pages of these domains and no others.
export const watchPages = async (api, domains, exclude) => {
  const matches = domains.map(patternOf);
  const changed = await register(api.scripting, matches, exclude.map(patternOf));
  if (changed) await refresh(api, matches);
};
