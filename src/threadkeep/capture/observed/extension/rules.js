// What may be captured, and why not: pure functions over plain values.

export const URL_CHARACTERS = 8 * 1024;
const TITLE_CHARACTERS = 4 * 1024;
const TEXT_CHARACTERS = 50 * 1024;

// `asked` is the domain that the popup wants to add, until the browser has let it.
export const FIRST_CHOICES = { enabled: true, pausedUntil: 0, added: [], asked: null };
// Until the host has answered; `domains` null means the sites that the manifest names.
export const FIRST_CONFIG = { enabled: true, domains: null, exclude: [], minDwellMs: 3000 };

// A host name as browsers write it: small letters, no dot at the end; null when it is none.
export const plainDomain = (text) => {
  const name = String(text).trim().replace(/^(\*\.|\.)/, "");
  if (!/^(?:[^\s/?#@:\\*]+|\[[\da-f:.]+\])$/i.test(name)) return null;
  const url = URL.parse(`http://${name}/`);
  return url && url.hostname.replace(/\.$/, "");
};

// The host of a page that can be captured at all, or null.
export const hostOf = (address) => {
  const url = URL.parse(address ?? "");
  return url && /^https?:$/.test(url.protocol) ? plainDomain(url.hostname) : null;
};

export const isListed = (host, domains) =>
  domains.some((domain) => host === domain || host.endsWith(`.${domain}`));

// Addresses in numbers have no sub-domains, and browsers refuse a pattern that says they do.
export const patternOf = (domain) => (/^\[|^[\d.]+$/.test(domain) ? `*://${domain}/*` : `*://*.${domain}/*`);

export const domainsOf = (patterns) =>
  patterns
    .map((pattern) => /^(?:\*|https?):\/\/(?:\*\.)?([^/*]+)\/\*$/.exec(pattern)?.[1])
    .filter((domain) => domain !== undefined);

// Every site that is captured: what the host says, or the manifest, and what was added in the popup.
export const allowedDomains = (choices, config, builtIn) => [
  ...new Set([...(config.domains ?? builtIn), ...choices.added]),
];

const plainDomains = (list) => list.map(plainDomain).filter((domain) => domain !== null);

// The host's answer as our settings, or null when it is none.
export const configOf = (reply) => {
  const { status, enabled, domains, exclude, min_dwell_ms: minDwellMs } = reply;
  const isList = (value) => Array.isArray(value) && value.every((one) => typeof one === "string");
  if (status !== "ok" || typeof enabled !== "boolean" || !isList(domains) || !isList(exclude)) return null;
  if (!Number.isFinite(minDwellMs) || minDwellMs < 0) return null;
  return { enabled, domains: plainDomains(domains), exclude: plainDomains(exclude), minDwellMs };
};

// Why nothing at all is captured, or null when it is.
export const whyOff = (choices, config, now) => {
  if (!choices.enabled) return "off";
  if (now < choices.pausedUntil) return "paused";
  return config.enabled ? null : "configured-off";
};

// Why this page is not captured, or null when it is.
export const whyNot = (host, choices, config, builtIn, now) => {
  const off = whyOff(choices, config, now);
  if (off !== null) return off;
  if (host === null) return "no-page";
  if (isListed(host, config.exclude)) return "excluded";
  return isListed(host, allowedDomains(choices, config, builtIn)) ? null : "not-listed";
};

const GOOGLE = /^(?:.+\.)?google\.(?:com|[a-z]{2}|com?\.[a-z]{2})$/;
const SEARCH_SITES = ["duckduckgo.com", "bing.com", "kagi.com", "ecosia.org"];

// What was searched for on the page before this one.
export const searchQuery = (referrer) => {
  const host = hostOf(referrer);
  if (host === null) return null;
  const url = new URL(referrer);
  const isGithub = host === "github.com" && url.pathname === "/search";
  const isSearch = isGithub || GOOGLE.test(host) || isListed(host, SEARCH_SITES);
  return (isSearch && url.searchParams.get("q")) || null;
};

const shortened = (value, characters) =>
  typeof value === "string" && value !== "" ? value.slice(0, characters).toWellFormed() : null;

// The message for the host; null when the page did not report a visit as ours do.
export const messageOf = (visit) => {
  const { url, dwell_ms: dwell, scroll_depth: depth, timestamp } = visit ?? {};
  const domain = typeof url === "string" && url.length <= URL_CHARACTERS ? hostOf(url) : null;
  if (domain === null || ![dwell, depth, timestamp].every(Number.isFinite)) return null;
  const referrer = shortened(visit.referrer, URL_CHARACTERS);
  return {
    url,
    title: shortened(visit.title, TITLE_CHARACTERS) ?? "",
    domain,
    dwell_ms: dwell,
    scroll_depth: depth,
    extracted_text: shortened(visit.extracted_text, TEXT_CHARACTERS),
    search_query: searchQuery(referrer),
    referrer,
    timestamp,
  };
};
