// What outlives the background: browsers stop it whenever they like.

import { FIRST_CHOICES, FIRST_CONFIG } from "./rules.js";
import { EMPTY } from "./outbox.js";

const FIRST = {
  choices: FIRST_CHOICES, // what the user chose in the popup
  config: FIRST_CONFIG, // what the host said last
  outbox: EMPTY,
  sent: { day: "", count: 0 },
  host: { reached: null, problem: "" }, // null: not tried yet
};

export const makeStore = (area) => {
  let last = Promise.resolve();

  const read = async (key) => (await area.get({ [key]: FIRST[key] }))[key];

  // Changes run one after the other, so that none is lost between reading and writing.
  const change = (key, changed) => {
    const done = last.then(async () => {
      const value = changed(await read(key));
      await area.set({ [key]: value });
      return value;
    });
    last = done.catch(() => undefined);
    return done;
  };

  return { read, change };
};
