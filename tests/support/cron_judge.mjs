// Asks the real cron-parser for the next times of many expressions.
//   node cron_judge.mjs <node_modules> < cases.json > answers.json
// A case is {expr, tz, from, count}; an answer is a list of ISO times, or null for a refusal.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.argv[2], "x.js"));
const { CronExpressionParser } = require("cron-parser");

function answer({ expr, tz, from, count }) {
  try {
    const times = CronExpressionParser.parse(expr, { tz, currentDate: from });
    return Array.from({ length: count }, () => times.next().toDate().toISOString());
  } catch {
    return null;
  }
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(answer)));
