// Which pages have the content script: new ones by registration, open ones at once.

import { patternOf } from "./rules.js";

const ID = "pages";
const FILES = ["visit.js", "readable.js", "content.js"];

const sameList = (one = [], other = []) => JSON.stringify([...one].sort()) === JSON.stringify([...other].sort());

// Make the registration what it should be; tells whether it had to be changed.
const register = async (scripting, matches, excludeMatches) => {
  const [now] = await scripting.getRegisteredContentScripts({ ids: [ID] });
  const isNone = matches.length === 0;
  if (sameList(now?.matches, matches) && (isNone || sameList(now?.excludeMatches, excludeMatches))) return false;
  if (now) await scripting.unregisterContentScripts({ ids: [ID] });
  if (isNone) return true;
  const script = { id: ID, js: FILES, matches, runAt: "document_start", allFrames: false };
  if (excludeMatches.length > 0) script.excludeMatches = excludeMatches;
  await scripting.registerContentScripts([script]);
  return true;
};

const tellPages = async (tabs) => {
  const tell = ({ id }) => tabs.sendMessage(id, { kind: "changed" }).catch(() => undefined);
  await Promise.all((await tabs.query({})).map(tell));
};

// Put the content script into open pages of these domains; where it runs already, nothing happens.
export const watchOpenPages = async (api, domains) => {
  if (domains.length === 0) return;
  const open = await api.tabs.query({ url: domains.map(patternOf) });
  const inject = ({ id }) => api.scripting.executeScript({ target: { tabId: id }, files: FILES });
  await Promise.all(open.map((tab) => inject(tab).catch(() => undefined)));
};

// Watch the pages of these domains and no others; pages that are open ask again.
export const watchPages = async (api, domains, exclude) => {
  if (!(await register(api.scripting, domains.map(patternOf), exclude.map(patternOf)))) return;
  await tellPages(api.tabs);
  await watchOpenPages(api, domains);
};
