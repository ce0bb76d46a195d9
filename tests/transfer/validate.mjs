// Asks the real AI SDK whether it takes lists of UI messages, and what a model would be sent.
//   node validate.mjs <node_modules> <lists.jsonl>
// One line per list: {ok, error, sent}, with the roles of what would be sent.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [modules, path] = process.argv.slice(2);
const sdk = join(modules, "ai");
const described = JSON.parse(readFileSync(join(sdk, "package.json"), "utf8"));
const { convertToModelMessages, safeValidateUIMessages } = await import(
  pathToFileURL(join(sdk, described.exports["."].import)).href
);

for (const line of readFileSync(path, "utf8").split("\n").filter(Boolean)) {
  const messages = JSON.parse(line);
  const result = await safeValidateUIMessages({ messages });
  const sent = result.success
    ? (await convertToModelMessages(result.data)).map((message) => message.role)
    : [];
  const error = result.success ? null : String(result.error).slice(0, 500);
  console.log(JSON.stringify({ ok: result.success, error, sent }));
}
