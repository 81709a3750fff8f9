// The page, and the worker that computes for it: one file, loaded by both.

const MODELS = {
  "number-translator": { task: "translation", options: { max_new_tokens: 90 }, probe: "seventy-one" },
  "python-completer": {
    task: "text-generation",
    options: { max_new_tokens: 48, do_sample: false },
    probe: "import json\n\ndef read(path):\n    with open(",
  },
};
const LIBRARY = "/library/transformers.min.js";
// On the GPU if the address says ?device=webgpu, which takes a build twice as large. What runs is what txexport
// verify proves with --runtime web or webgpu; but drivers differ, so that a GPU's first answer is compared here.
const GPU = new URL(location.href).searchParams.get("device") === "webgpu";
const RUNTIME = `/runtime/ort-wasm-simd-threaded${GPU ? ".asyncify" : ""}`;

if (typeof document === "undefined") await work();
else show();

// ---------------------------------------------------------------------------------------------- the worker

async function work() {
  const { BaseStreamer, StoppingCriteria, env, pipeline } = await import(LIBRARY);
  // As from a hub, of which transformers.js learns sizes by first bytes; "local" files it would ask for twice.
  Object.assign(env, { remoteHost: new URL("/models/", location.href).href, remotePathTemplate: "{model}/" });
  Object.assign(env, { useBrowserCache: false, useWasmCache: false });
  env.backends.onnx.wasm.wasmPaths = { mjs: `${RUNTIME}.mjs`, wasm: `${RUNTIME}.wasm` };
  const tell = (model, message) => postMessage({ model, ...message });
  const pipes = {};
  let flag;

  class Words extends BaseStreamer { // the whole text again with each token: a word's bytes may come apart
    constructor(model) {
      super();
      Object.assign(this, { model, tokens: null, since: performance.now() });
    }
    put([row]) {
      if (this.tokens === null) return void (this.tokens = []); // the prompt comes first
      this.tokens.push(...row);
      const text = pipes[this.model].tokenizer.decode(this.tokens, { skip_special_tokens: true });
      const seconds = (performance.now() - this.since) / 1000;
      tell(this.model, { kind: "text", text, count: this.tokens.length, seconds });
    }
    end() {}
  }

  // No message arrives while a model runs, so that the page ends it through memory that both see.
  class Stop extends StoppingCriteria {
    _call(rows) {
      return rows.map(() => Atomics.load(flag, 0) === 1);
    }
  }

  async function load(model) {
    const progress_callback = ({ status, loaded, total }) => {
      if (status === "progress_total") tell(model, { kind: "progress", loaded, total });
    };
    const start = performance.now();
    const { task } = MODELS[model];
    const here = await pipeline(task, model, { progress_callback, device: "wasm" });
    const [there, where] = GPU ? await onGpu(model, here) : [null, "the processor"];
    pipes[model] = there ?? here;
    if (there) await here.dispose();
    tell(model, { kind: "ready", where, seconds: (performance.now() - start) / 1000, sizes: sizes() });
  }

  // A pipeline on the GPU, if that answers as the one here does, else null; and in words where to compute.
  async function onGpu(model, here) {
    const { task, probe } = MODELS[model];
    const options = { do_sample: false, max_new_tokens: 6 };
    let there = null;
    try {
      if (!(await navigator.gpu?.requestAdapter())) throw new Error("there is no GPU for WebGPU");
      there = await pipeline(task, model, { device: "webgpu" });
      const [wanted, answer] = [await here(probe, options), await there(probe, options)].map(JSON.stringify);
      if (answer !== wanted) throw new Error("this GPU answers wrongly");
      return [there, "the GPU, which answers as the processor does"];
    } catch (error) {
      await there?.dispose();
      return [null, `the processor: ${error.message ?? error}`];
    }
  }

  async function run(model, text) {
    Atomics.store(flag, 0, 0);
    const { options } = MODELS[model];
    await pipes[model](text, { ...options, streamer: new Words(model), stopping_criteria: new Stop() });
    tell(model, { kind: "done" });
  }

  let line = Promise.resolve();
  onmessage = ({ data: { call, model, text, shared } }) => {
    if (call === "share") return void (flag = shared);
    line = line // one after the other
      .then(() => (call === "load" ? load(model) : run(model, text)))
      .catch((error) => tell(model, { kind: "failed", message: String(error.message ?? error) }));
  };
  postMessage({ kind: "here" });
}

// What was loaded so far, in bytes as they are used, by the first part of the path.
function sizes() {
  const result = {};
  for (const { name, decodedBodySize } of performance.getEntriesByType("resource")) {
    const [first, second] = new URL(name).pathname.split("/").filter(Boolean);
    const part = first === "models" ? second : first;
    result[part] = (result[part] ?? 0) + decodedBodySize;
  }
  return result;
}

// ------------------------------------------------------------------------------------------------ the page

function show() {
  const worker = new Worker(`${import.meta.url}${location.search}`, { type: "module" });
  const flag = new Int32Array(new SharedArrayBuffer(4)); // 1: what runs shall end
  const cards = Object.fromEntries(
    [...document.querySelectorAll("section")].map((section) => [section.dataset.model, card(section, worker, flag)]),
  );
  worker.onmessage = ({ data }) => {
    if (data.kind === "here") {
      worker.postMessage({ call: "share", shared: flag });
      for (const model of Object.keys(cards)) worker.postMessage({ call: "load", model });
      return;
    }
    cards[data.model][data.kind](data);
    if (data.sizes) table(data.sizes);
  };
  worker.onerror = ({ message }) => {
    for (const each of Object.values(cards)) {
      each.failed({ message: message || "the worker could not start; is transformers.js where serve.py looks?" });
    }
  };
  const [device, other] = GPU ? ["WebGPU", "?"] : ["WebAssembly", "?device=webgpu"];
  const threads = crossOriginIsolated ? `${Math.min(4, Math.ceil(navigator.hardwareConcurrency / 2))}` : "one";
  document.getElementById("where").textContent =
    `${device}, ${threads} thread${threads === "1" || threads === "one" ? "" : "s"}. ` +
    "Sizes are of what was loaded, uncompressed. ";
  const link = document.createElement("a");
  Object.assign(link, { href: other, textContent: GPU ? "Compute on the processor" : "Compute on the GPU" });
  document.getElementById("where").append(link, ".");
}

function card(section, worker, flag) {
  const find = (selector) => section.querySelector(selector);
  const { model } = section.dataset;
  const [state, bar, made, button] = [".state", "progress", ".made", "button.main"].map(find);
  const say = (text) => (state.textContent = text);
  const isCode = model === "python-completer";
  let running = false;

  function start(text) {
    if (running || button.disabled) return;
    running = true;
    made.textContent = "";
    made.classList.add("going");
    for (const each of section.querySelectorAll(".stop, .keep")) each.disabled = !each.matches(".stop");
    say("reading");
    worker.postMessage({ call: "run", model, text });
  }

  if (isCode) {
    const [field, given] = [find("textarea"), find(".given")];
    const complete = () => {
      if (!field.value.trim()) return;
      given.textContent = field.value;
      start(field.value);
    };
    find("form").addEventListener("submit", (event) => (event.preventDefault(), complete()));
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) complete();
    });
    find(".stop").addEventListener("click", () => Atomics.store(flag, 0, 1));
    find(".keep").addEventListener("click", () => {
      field.value = given.textContent + made.textContent;
      given.textContent = made.textContent = "";
      find(".keep").disabled = true;
      field.focus();
    });
  } else {
    const [field, english] = [find("input"), find(".english")];
    const translate = () => {
      const digits = field.value.replace(/[,\s.]/g, "");
      const isNumber = /^\d+$/.test(digits);
      if (isNumber && Number(digits) >= 1e9) return say("below a thousand million, please");
      const text = isNumber ? words(Number(digits)) : field.value.trim().toLowerCase();
      if (!text) return;
      english.textContent = text;
      start(text);
    };
    find("form").addEventListener("submit", (event) => (event.preventDefault(), translate()));
    section.addEventListener("click", ({ target: { dataset } }) => {
      if (!dataset.number || button.disabled) return;
      const any = () => Math.floor(10 ** (1 + 8 * Math.random()));
      field.value = (dataset.number === "any" ? any() : Number(dataset.number)).toLocaleString("en");
      translate();
    });
  }

  return {
    progress({ loaded, total }) {
      bar.value = total ? loaded / total : 0;
      const done = total && loaded >= total;
      say(done ? `${megabytes(total)} loaded, preparing` : `loading: ${megabytes(loaded)} of ${megabytes(total)}`);
    },
    ready({ seconds, where }) {
      bar.hidden = true;
      button.disabled = false;
      say(`ready after ${seconds.toFixed(1)} s, on ${where}`);
      if (!isCode) find("form").requestSubmit();
    },
    text({ text, count, seconds }) {
      made.textContent = text;
      say(`${count} tokens, ${(count / seconds).toFixed(0)} a second`);
    },
    done() {
      running = false;
      made.classList.remove("going");
      for (const each of section.querySelectorAll(".stop, .keep")) each.disabled = each.matches(".stop");
    },
    failed({ message }) {
      this.done();
      bar.hidden = true;
      state.classList.add("failed");
      say(message);
    },
  };
}

function table(sizes) {
  const names = { runtime: "ONNX Runtime", library: "transformers.js" };
  const order = [...Object.keys(MODELS), ...Object.keys(names)];
  const rows = order.filter((name) => sizes[name]).map((name) => [name, sizes[name]]);
  rows.push(["together", rows.reduce((sum, [, size]) => sum + size, 0)]);
  document.getElementById("sizes").replaceChildren(
    ...rows.map(([name, size]) => {
      const row = document.createElement("tr");
      for (const text of [names[name] ?? name, megabytes(size)]) row.insertCell().textContent = text;
      return row;
    }),
  );
}

function megabytes(size) {
  return `${(size / 1e6).toFixed(1)} MB`;
}

// A number below a thousand million in English words, as the translator was taught them.
function words(number) {
  const ones = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen " +
    "sixteen seventeen eighteen nineteen").split(" ");
  const tens = "twenty thirty forty fifty sixty seventy eighty ninety".split(" ");
  if (number < 20) return ones[number];
  if (number < 100) return tens[Math.floor(number / 10) - 2] + (number % 10 ? `-${ones[number % 10]}` : "");
  const [size, name] = [[1e6, "million"], [1e3, "thousand"], [100, "hundred"]].find(([each]) => number >= each);
  const rest = number % size;
  const joint = rest < 100 ? " and " : size === 100 ? " " : ", ";
  return `${words(Math.floor(number / size))} ${name}${rest ? joint + words(rest) : ""}`;
}
