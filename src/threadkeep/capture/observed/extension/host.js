// The native-messaging host: started when there is something to say, ended when there is not.

const NAME = "threadkeep";
const ANSWER_MS = 20_000;
const IDLE_MS = 10_000; // a process that waits for nothing is a waste

export const makeHost = (runtime) => {
  let port = null;
  let idle = 0;
  let waiting = []; // answers come in the order of the questions
  let last = Promise.resolve();

  const close = (reason) => {
    clearTimeout(idle);
    port?.disconnect();
    port = null;
    for (const { reject } of waiting.splice(0)) reject(new Error(reason));
  };

  const open = () => {
    const opened = runtime.connectNative(NAME);
    opened.onMessage.addListener((reply) => opened === port && waiting.shift()?.resolve(reply));
    opened.onDisconnect.addListener(() => {
      const reason = (runtime.lastError ?? opened.error)?.message ?? "the host ended";
      if (opened === port) close(reason);
    });
    return opened;
  };

  const say = (message) =>
    new Promise((resolve, reject) => {
      port ??= open();
      port.postMessage(message);
      waiting.push({ resolve, reject });
    });

  const askNow = async (message) => {
    clearTimeout(idle);
    const late = setTimeout(() => close("the host did not answer"), ANSWER_MS);
    try {
      const reply = await say(message);
      if (typeof reply?.status !== "string") throw new Error("the host answered something else");
      return reply;
    } finally {
      clearTimeout(late);
      idle = setTimeout(() => close("idle"), IDLE_MS);
    }
  };

  // Give the host's answer; an error when it cannot be reached.
  const ask = (message) => {
    const answer = last.then(() => askNow(message));
    last = answer.catch(() => undefined);
    return answer;
  };

  return { ask };
};
