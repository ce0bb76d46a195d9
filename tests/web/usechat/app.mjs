// A small chat application with the real AI SDK: what it streams to the browser it also records.
//   node app.mjs <node_modules> <address of threadkeep>        (its token comes by KEEP_TOKEN)
// The model says what the test posts to /model, part by part, so nothing depends on time.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";

const [modules, keep] = process.argv.slice(2);
const load = (...path) => import(pathToFileURL(join(modules, ...path)).href);
const described = JSON.parse(readFileSync(join(modules, "ai", "package.json"), "utf8"));
const protocol = Number.parseInt(described.version); // 6 or 7: of the AI SDK that streams
const sdk = await load("ai", described.exports["."].import);
const { MockLanguageModelV3 } = await load("ai", described.exports["./test"].import);
const { buildSync } = await load("esbuild", "lib", "main.js").then((module) => module.default);

const here = dirname(fileURLToPath(import.meta.url));
const bundle = buildSync({
  entryPoints: [join(here, "page.mjs")],
  bundle: true,
  write: false,
  format: "iife",
  nodePaths: [modules],
  define: { "process.env.NODE_ENV": '"production"' },
}).outputFiles[0].text;

const PAGE = `<!doctype html><html lang="en"><meta charset="utf-8"><title>chat</title>
<div id="root"></div><script src="/page.js"></script>`;

// ---------------------------------------------------------------- the model

let said = []; // what the model says next
let listening; // the stream that it says it to
let steering; // how the user reaches the reply that streams now
const recordings = [];

function speak() {
  while (listening && said.length) {
    const part = said.shift();
    listening.enqueue(part);
    if (part.type === "finish") {
      listening.close();
      listening = undefined;
    }
  }
}

const model = new MockLanguageModelV3({
  doStream: async ({ abortSignal }) => ({
    stream: new ReadableStream({
      start(controller) {
        listening = controller;
        abortSignal.addEventListener("abort", () => {
          listening = undefined;
          controller.error(abortSignal.reason);
        });
        speak();
      },
    }),
  }),
});

const weather = sdk.tool({
  description: "The weather of a place.",
  inputSchema: sdk.jsonSchema({ type: "object", properties: { place: { type: "string" } } }),
  execute: async ({ place }) => ({ place, degrees: 21 }),
});

// ---------------------------------------------------------------- threadkeep

const ask = (method, path, body, more = {}) =>
  fetch(`${keep}/api/chat${path}`, {
    method,
    body,
    headers: {
      authorization: `Bearer ${process.env.KEEP_TOKEN}`,
      ...(body ? { "content-type": more.type ?? "application/json" } : {}),
    },
    ...(more.type ? { duplex: "half" } : {}),
    signal: more.signal,
  });

async function record(id, stream, stop) {
  const body = stream.pipeThrough(new TextEncoderStream());
  const path = `/${id}/record?protocol=${protocol}`;
  const answer = await ask("POST", path, body, { type: "text/event-stream" });
  const told = await answer.json();
  if (told.status === "abort") stop.abort(); // it came before the end: somebody stopped the reply
  return { ...told, aborted: stop.signal.aborted };
}

// ---------------------------------------------------------------- the application

async function reply(request, response) {
  const { id, messages } = await new Response(Readable.toWeb(request)).json();
  await ask("PUT", `/${id}/ui-messages`, JSON.stringify(messages));
  const stop = new AbortController();
  steering = sdk.experimental_createSteering?.(); // since 7: what the user says meanwhile
  const result = sdk.streamText({
    model,
    messages: await sdk.convertToModelMessages(messages),
    tools: { weather },
    stopWhen: sdk.stepCountIs(3),
    abortSignal: stop.signal,
    experimental_steering: steering,
  });
  sdk.pipeUIMessageStreamToResponse({
    response,
    stream: result.toUIMessageStream({
      originalMessages: messages,
      generateMessageId: sdk.generateId,
    }),
    consumeSseStream: ({ stream }) => recordings.push(record(id, stream, stop)),
  });
}

async function pass(response, answer) {
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  if (!answer.body) return response.end();
  Readable.fromWeb(answer.body).on("error", () => response.destroy()).pipe(response);
}

const sent = async (request) => Buffer.from(await new Response(Readable.toWeb(request)).bytes());
const give = (response, type, text) => response.writeHead(200, { "content-type": type }).end(text);

async function answer(request, response) {
  const { pathname } = new URL(request.url, "http://app");
  const [, , , id, what] = pathname.split("/");
  if (pathname === "/") return give(response, "text/html", PAGE);
  if (pathname === "/page.js") return give(response, "text/javascript", bundle);
  if (pathname === "/model") {
    said.push(...JSON.parse(await sent(request)));
    speak();
    return give(response, "application/json", "{}");
  }
  if (pathname === "/recorded") {
    return give(response, "application/json", JSON.stringify(await Promise.all(recordings)));
  }
  if (pathname === "/api/chat") return reply(request, response);
  if (what === "stop") return pass(response, await ask("POST", `/${id}/stop`, await sent(request)));
  if (what === "steer") {
    steering.steer((await sent(request)).toString());
    return give(response, "application/json", "{}");
  }
  if (what === "messages") return pass(response, await ask("GET", `/${id}/ui-messages`));
  if (what === "stream") {
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    return pass(response, await ask("GET", `/${id}/stream`, undefined, { signal: gone.signal }));
  }
  response.writeHead(204).end();
}

const server = createServer((request, response) => {
  answer(request, response).catch((error) => {
    console.error(error);
    response.destroy();
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit()).resume(); // it ends with who started it
