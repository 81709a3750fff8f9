// Frames as frames.py has them, and what a runtime answers to one: {call: "load"}, {call: "run"}, {call: "release"}.

const ARRAYS = { bool: Uint8Array, float32: Float32Array, int64: BigInt64Array };
const LENGTH = 4;

// A frame (ArrayBuffer) -> its message, with `tensors` by name.
export function decode(frame, Tensor) {
  let start = LENGTH + new DataView(frame).getUint32(0, true);
  const message = JSON.parse(new TextDecoder().decode(new Uint8Array(frame, LENGTH, start - LENGTH)));
  const tensors = {};
  for (const { name, type, dims } of message.tensors) {
    const size = dims.reduce((product, dim) => product * dim, 1) * ARRAYS[type].BYTES_PER_ELEMENT;
    tensors[name] = new Tensor(type, new ARRAYS[type](frame.slice(start, start + size)), dims);
    start += size;
  }
  return { ...message, tensors };
}

// A message and tensors by name -> a frame in parts.
export function encode(message, tensors) {
  const listed = Object.entries(tensors).map(([name, { type, dims }]) => ({ name, type, dims: [...dims] }));
  const head = new TextEncoder().encode(JSON.stringify({ ...message, tensors: listed }));
  const length = new DataView(new ArrayBuffer(LENGTH));
  length.setUint32(0, head.length, true);
  const bytes = ({ data }) => new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return [new Uint8Array(length.buffer), head, ...Object.values(tensors).map(bytes)];
}

// A function from a frame to the answer's, over sessions that `open(message)` makes; `others` are more calls.
export function answerer(Tensor, open, others = {}) {
  const sessions = [];
  return async (frame) => {
    try {
      const { call, session, tensors, ...rest } = decode(frame, Tensor);
      if (call === "load") return encode({ session: sessions.push(await open(rest)) - 1 }, {});
      if (call === "release") {
        // On WebGPU the first is kept: with its last session, onnxruntime-web drops the shaders that it compiled.
        for (const one of sessions.splice(rest.keep)) await one.release();
        return encode({}, {});
      }
      if (call in others) return encode(others[call](), {});
      return encode({}, await sessions[session].run(tensors));
    } catch (error) {
      return encode({ error: String(error?.message ?? error) }, {});
    }
  };
}
