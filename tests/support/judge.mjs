// Runs the real AI SDK over chunk streams and prints the message after every chunk.
//   node judge.mjs <node_modules> <cases.jsonl>
// One line per case: {id, states, final, error}. `states` ends before the first violation,
// `final` is the last message that the untouched stream emitted (absent when it emitted none).
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, casesPath] = process.argv.slice(2);
const sdk = join(modules, "ai");
const described = JSON.parse(readFileSync(join(sdk, "package.json"), "utf8"));
const entry = join(sdk, described.exports["."].import); // its name differs between 6 and 7
const { readUIMessageStream } = await import(pathToFileURL(entry).href);

// The SDK emits nothing for a start-step. A data part with an id of its own, written after every
// chunk, makes it emit; it stays out of the way of everything else and is taken out again.
const PROBE = "data-judge-probe";

const streamOf = (chunks) =>
  new ReadableStream({
    start(controller) {
      chunks.forEach((chunk) => controller.enqueue(chunk));
      controller.close();
    },
  });

async function read(chunks, message, onMessage) {
  const errors = [];
  const stream = streamOf(chunks);
  for await (const emitted of readUIMessageStream({
    stream,
    message,
    onError: (error) => errors.push(error.name),
  })) {
    onMessage(emitted);
  }
  return errors.find((name) => name !== "Error") ?? null; // an error chunk is a plain Error
}

for (const line of readFileSync(casesPath, "utf8").split("\n").filter(Boolean)) {
  const fresh = () => JSON.parse(line); // the SDK changes what it is given
  const { id, chunks, initial_message: initial } = fresh();
  const probed = chunks.flatMap((chunk, k) => [chunk, { type: PROBE, id: "p", data: k }]);
  const states = [];
  const error = await read(probed, initial, (message) => {
    const probe = message.parts.find((part) => part.type === PROBE);
    if (probe === undefined || probe.data !== states.length) return;
    states.push({ ...message, parts: message.parts.filter((part) => part !== probe) });
  });
  let final;
  await read(fresh().chunks, fresh().initial_message, (message) => (final = message));
  console.log(JSON.stringify({ id, states, final, error }));
}
