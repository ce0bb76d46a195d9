// Visits that the host has not taken yet: bounded, the oldest go first. Pure functions.

export const MOST_VISITS = 200;
export const MOST_BYTES = 5_000_000;
export const MOST_TRIES = 5;

export const EMPTY = { items: [], dropped: 0 };

const isSame = (one, other) => one.url === other.url && one.timestamp === other.timestamp;

const bytesOf = (message) => new TextEncoder().encode(JSON.stringify(message)).length;

// Add a visit; a longer report of one that still waits takes its place.
export const put = (box, message) => {
  const others = box.items.filter((item) => !isSame(item.message, message));
  return bounded({ ...box, items: [...others, { message, bytes: bytesOf(message), tries: 0 }] });
};

const bounded = (box) => {
  const items = [...box.items];
  let bytes = items.reduce((sum, item) => sum + item.bytes, 0);
  while (items.length > MOST_VISITS || bytes > MOST_BYTES) bytes -= items.shift().bytes;
  return { items, dropped: box.dropped + box.items.length - items.length };
};

const isStill = (item, message) => isSame(item.message, message) && item.message.dwell_ms === message.dwell_ms;

// Take out what the host has taken, unless a longer report of it came in the meantime.
export const taken = (box, message) => ({
  ...box,
  items: box.items.filter((item) => !isStill(item, message)),
});

// The host could not store it: try again later, but not for ever.
export const refused = (box, message) => {
  const tried = box.items.map((item) => (isStill(item, message) ? { ...item, tries: item.tries + 1 } : item));
  const items = tried.filter((item) => item.tries < MOST_TRIES);
  return { items, dropped: box.dropped + tried.length - items.length };
};
