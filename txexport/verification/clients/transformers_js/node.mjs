// transformers.js as a process: a request a line on standard input, an answer a line on standard output.
//
//   node node.mjs FOLDER-OF-@huggingface/transformers

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { answerer } from "./answer.mjs";

const folder = process.argv[2];
const { exports } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
const library = await import(pathToFileURL(join(folder, exports.node.import.default)));
const answer = answerer(library, (fail) => process.on("unhandledRejection", fail));
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  process.stdout.write(`${await answer(line)}\n`);
}
