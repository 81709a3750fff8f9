// A graph in onnxruntime-web's WebAssembly: feeds on standard input, outputs on standard output, a frame each.
//
//   node answer.mjs FOLDER-OF-ONNXRUNTIME-WEB MODEL.onnx

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { buffer } from "node:stream/consumers";
import { decode, encode } from "../../runtimes/js/frames.mjs";

const [, , folder, graph] = process.argv;
const { InferenceSession, Tensor } = createRequire(import.meta.url)(folder);

const weights = { path: `${basename(graph)}_data`, data: await readFile(`${graph}_data`) };
const session = await InferenceSession.create(await readFile(graph), { externalData: [weights] });
const feeds = await buffer(process.stdin);
const { tensors } = decode(feeds.buffer.slice(feeds.byteOffset, feeds.byteOffset + feeds.length), Tensor);
for (const piece of encode({}, await session.run(tensors))) process.stdout.write(piece);
