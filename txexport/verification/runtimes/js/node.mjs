// onnxruntime-node as a process: frames on standard input and output, each after its length in 8 bytes.
//
//   node node.mjs FOLDER-OF-ONNXRUNTIME-NODE

import { createRequire } from "node:module";
import { answerer } from "./frames.mjs";

const LENGTH = 8;
const { InferenceSession, Tensor } = createRequire(import.meta.url)(process.argv[2]);
const answer = answerer(Tensor, ({ path, options }) =>
  InferenceSession.create(path, { logSeverityLevel: 4, extra: options }),
);

let parts = [];
let held = 0;
let wanted = null; // bytes of the frame that comes, once its length is known

function take(size) {
  const all = Buffer.concat(parts, held);
  parts = [all.subarray(size)];
  held -= size;
  return all.subarray(0, size);
}

for await (const part of process.stdin) {
  parts.push(part);
  held += part.length;
  while (held >= (wanted ?? LENGTH)) {
    if (wanted === null) {
      wanted = Number(take(LENGTH).readBigUInt64LE());
      continue;
    }
    const frame = take(wanted);
    wanted = null;
    const said = await answer(frame.buffer.slice(frame.byteOffset, frame.byteOffset + frame.length));
    const length = Buffer.alloc(LENGTH);
    length.writeBigUInt64LE(BigInt(said.reduce((sum, piece) => sum + piece.length, 0)));
    for (const piece of [length, ...said]) process.stdout.write(piece);
  }
}
