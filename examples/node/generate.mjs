// Greedy tokens of a decoder bundle in Node: the same ONNX file, without Python.
//
//   npm install      (ONNXRUNTIME_NODE_INSTALL=skip before it leaves out what only CUDA needs)
//   txexport export CHECKPOINT bundle
//   node generate.mjs bundle 5,6,7 10
//
// Prints new token ids, separated by commas. The tokenizer is the bundle's tokenizer.json, which
// @huggingface/transformers reads.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import * as ort from "onnxruntime-node";

const [folder, prompt, count] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(join(folder, "txexport.json"), "utf8"));
const graph = manifest.formats[manifest.form.dtypes[0]].hub.model;
const session = await ort.InferenceSession.create(join(folder, graph.file));
const int64 = (numbers, shape) => new ort.Tensor("int64", BigInt64Array.from(numbers.map(BigInt)), shape);

// A cache of nothing: (batch, heads, 0, size) for each layer's keys and values.
let past = {};
for (const port of graph.inputs) {
  if (port.name.startsWith("past_key_values.")) {
    past[port.name] = new ort.Tensor("float32", new Float32Array(0), [1, port.shape[1], 0, port.shape[3]]);
  }
}

let ids = prompt.split(",").map(Number);
let length = 0;
const tokens = [];
while (tokens.length < Number(count)) {
  const steps = ids.map((_, step) => length + step);
  length += ids.length;
  const outputs = await session.run({
    input_ids: int64(ids, [1, ids.length]),
    attention_mask: int64(new Array(length).fill(1), [1, length]),
    position_ids: int64(steps, [1, ids.length]),
    ...past,
  });
  past = Object.fromEntries(Object.keys(past).map((name) => [name, outputs[name.replace("past_key_values", "present")]]));
  const words = outputs.logits.dims[2];
  const last = outputs.logits.data.subarray(outputs.logits.data.length - words);
  ids = [last.reduce((best, value, word) => (value > last[best] ? word : best), 0)];
  tokens.push(ids[0]);
}
console.log(tokens.join(","));
