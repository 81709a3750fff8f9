// What transformers.js makes of a bundle: the same in Node and in a page.
//
// A request is {call, model, env, options, ...} in JSON:
//   pipeline  task, arguments: the pipeline's answer
//   forward   architecture, feeds: the model's outputs, tensors by name
//   generate  architecture, feeds, generation: token ids, the prompt's included
//   files     task: the paths that a pipeline loads
// Tensors, images and sound come and go as {tensor: {type, dims, data}}, {image: {data, width, height, channels}}
// and {audio: [...]}. The answer is {value, warnings} or {error, warnings}.

//
// `onRejection` takes what is to be called with a rejection that nobody handles: a file of weights that is not
// there is one, and the call that waits for it never ends.

export function answerer(library, onRejection) {
  const { RawImage, Tensor, env, pipeline } = library;
  const loaded = new Map();
  let fail = () => {};
  onRejection((reason) => fail(reason));

  function received(value) {
    if (Array.isArray(value)) return value.map(received);
    if (value === null || typeof value !== "object") return value;
    if (value.tensor) return tensor(value.tensor);
    if (value.audio) return Float32Array.from(value.audio);
    if (value.image) {
      const { data, width, height, channels } = value.image;
      return new RawImage(Uint8ClampedArray.from(data), width, height, channels);
    }
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, received(part)]));
  }

  function tensor({ type, dims, data }) {
    if (type === "int64") return new Tensor(type, BigInt64Array.from(data, BigInt), dims);
    if (type === "bool") return new Tensor(type, Uint8Array.from(data), dims);
    return new Tensor(type, Float32Array.from(data), dims);
  }

  // JSON has no infinities.
  function number(value) {
    return Number.isFinite(Number(value)) ? Number(value) : String(value);
  }

  function sent(value) {
    if (typeof value === "bigint") return Number(value);
    if (value instanceof Tensor) {
      return { tensor: { type: value.type, dims: value.dims, data: Array.from(value.data, number) } };
    }
    if (Array.isArray(value) || ArrayBuffer.isView(value)) return Array.from(value, sent);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, sent(part)]));
  }

  async function once(key, load) {
    if (!loaded.has(key)) loaded.set(key, await load());
    return loaded.get(key);
  }

  const calls = {
    async pipeline({ task, model, options, arguments: given }) {
      const run = await once(`${task} ${model}`, () => pipeline(task, model, options));
      return run(...received(given));
    },
    async forward({ architecture, model, options, feeds }) {
      const run = await once(`${architecture} ${model}`, () => library[architecture].from_pretrained(model, options));
      return { ...(await run(received(feeds))) };
    },
    async generate({ architecture, model, options, feeds, generation }) {
      const run = await once(`${architecture} ${model}`, () => library[architecture].from_pretrained(model, options));
      return (await run.generate({ ...received(feeds), ...generation })).tolist();
    },
    async files({ model, task, options }) {
      return library.ModelRegistry.get_pipeline_files(task, model, options);
    },
  };

  return async (text) => {
    const warnings = [];
    for (const level of ["log", "info", "warn", "error"]) {
      console[level] = (...parts) => warnings.push(parts.map(String).join(" "));
    }
    try {
      const request = JSON.parse(text);
      Object.assign(env, request.env);
      const failed = new Promise((_, reject) => (fail = reject));
      return JSON.stringify({ value: sent(await Promise.race([calls[request.call](request), failed])), warnings });
    } catch (error) {
      return JSON.stringify({ error: String(error?.message ?? error), warnings });
    }
  };
}
