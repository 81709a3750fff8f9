"use strict";
// Draws a document of attention maps: which token, of which layer and head, takes how much of which other.
(() => {
  const given = JSON.parse(document.getElementById("document").textContent);
  const NAMES = {
    attentions: "tokens on tokens",
    cross_attentions: "written tokens on the source",
    encoder_attentions: "source tokens on the source",
    decoder_attentions: "tokens read by the decoder on those before",
    text_attentions: "tokens on tokens",
  };
  const MEAN = "mean";
  const maps = [...given.maps].sort((a, b) => b.name.startsWith("cross") - a.name.startsWith("cross"));
  // An alignment is clearest in the mean of all layers, what a layer does in one.
  const first = (map) => (maps[map].name.startsWith("cross") ? MEAN : 0);
  const chosen = { map: 0, layer: first(0), head: MEAN, query: 0 };
  const page = document.getElementById("page");
  const scheme = matchMedia("(prefers-color-scheme: dark)");

  const make = (kind, parent, text = "", attributes = {}) => {
    const element = document.createElement(kind);
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    parent.append(element);
    return element;
  };
  const UNPRINTABLE = /[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g; // as printable.py has them
  const shown = (token) =>
    token.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(UNPRINTABLE, "\ufffd").trim() || "␣";
  const percent = (weight) => `${(100 * weight).toFixed(weight < 0.0995 ? 1 : 0)}%`;
  // Small weights must still be seen: shade grows as the root.
  const shade = (weight) => Math.sqrt(Math.min(1, Math.max(0, weight))).toFixed(3);
  const map = () => maps[chosen.map];
  const heads = (layer) => map().weights[layer];
  const mean = (matrices) => matrices[0].map((row, query) =>
    row.map((_, key) => matrices.reduce((sum, matrix) => sum + matrix[query][key], 0) / matrices.length));
  const weights = () => {
    if (chosen.layer === MEAN) return mean(map().weights.flat());
    return chosen.head === MEAN ? mean(heads(chosen.layer)) : heads(chosen.layer)[chosen.head];
  };
  const nameOf = (kind, value) => (value === MEAN ? `mean of all ${kind}s` : `${kind} ${value + 1}`);
  const numbered = (kind, values) => [[MEAN, nameOf(kind, MEAN)], ...values.map((_, i) => [i, i + 1])];
  const read = (value) => (value === MEAN ? MEAN : Number(value));

  const choose = (changes) => {
    Object.assign(chosen, changes);
    if ("map" in changes) Object.assign(chosen, { layer: first(chosen.map), head: MEAN, query: 0 });
    if (chosen.layer === MEAN) chosen.head = MEAN;
    "map" in changes ? build() : update();
  };

  const draw = (canvas, matrix) => {
    const [rows, columns] = [matrix.length, matrix[0].length];
    [canvas.width, canvas.height] = [columns, rows];
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--shade").trim().split(/\s+/);
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    matrix.forEach((row, y) => row.forEach((weight, x) =>
      image.data.set([...colour.map(Number), 255 * shade(weight)], 4 * (y * columns + x))));
    context.putImageData(image, 0, 0);
  };

  const select = (bar, label, values, value, change) => {
    const element = make("select", make("label", bar, label));
    for (const [key, text] of values) make("option", element, text, { value: key });
    element.value = value;
    element.addEventListener("change", () => change(element.value));
    return element;
  };

  // Arrow keys go from one button of a group to the next; Tab goes to the one that is chosen.
  const walk = (group, size) => group.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: size(), ArrowUp: -size() };
    const buttons = [...group.querySelectorAll("button")];
    const ends = { Home: 0, End: buttons.length - 1 };
    const at = buttons.indexOf(document.activeElement);
    const next = event.key in ends ? ends[event.key] : at + steps[event.key];
    if (!buttons[next]) return;
    event.preventDefault();
    buttons[next].focus();
  });
  const press = (button, pressed) => {
    button.setAttribute("aria-pressed", pressed);
    button.tabIndex = pressed ? 0 : -1;
  };

  let parts = {};
  const build = () => {
    page.replaceChildren();
    const { name, queries, keys } = map();
    const bar = make("div", page, "", { class: "bar", role: "group", "aria-label": "what is shown" });
    if (maps.length > 1) {
      select(bar, "attention", maps.map((one, i) => [i, NAMES[one.name] || one.name]), chosen.map,
        (value) => choose({ map: Number(value) }));
    }
    const layer = select(bar, "layer", numbered("layer", map().weights), chosen.layer,
      (value) => choose({ layer: read(value) }));
    const head = select(bar, "head", numbered("head", heads(0)), chosen.head,
      (value) => choose({ head: read(value) }));

    make("h2", page, name === "cross_attentions" ? "Choose a written token" : "Choose a token");
    const from = make("div", page, "", { class: "tokens", role: "group", "aria-label": "tokens that attend" });
    const asking = queries.map((token, query) => {
      const button = make("button", from, shown(token), { class: "token", type: "button" });
      for (const kind of ["focus", "pointerenter", "click"]) {
        button.addEventListener(kind, () => choose({ query }));
      }
      return button;
    });
    walk(from, () => queries.length);
    const title = make("h2", page, "", { "aria-live": "polite" });
    const to = make("div", page, "", { class: "tokens", role: "list", "aria-label": "tokens attended to" });
    const answering = keys.map((token) => {
      const element = make("span", to, shown(token), { class: "token", role: "listitem" });
      return [element, make("small", element)];
    });

    const inside = make("section", page);
    const side = make("h2", inside);
    const group = make("div", inside, "", { class: "heads", role: "group", "aria-label": "heads of the layer" });
    const beside = heads(0).map((_, i) => {
      const button = make("button", group, `head ${i + 1}`, { class: "head", type: "button" });
      button.addEventListener("click", () => choose({ head: i }));
      return [button, make("canvas", button, "", { "aria-hidden": "true" })];
    });
    walk(group, () => getComputedStyle(group).gridTemplateColumns.split(" ").length);

    make("h2", page, name === "cross_attentions" ? "Alignment" : "Weights");
    const caption = make("p", page, "", { class: "hint" });
    const scroll = { class: "wide", tabindex: "0", role: "region" };
    const table = make("table", make("div", page, "", { ...scroll, "aria-label": "weights" }), "", { class: "matrix" });
    const top = make("tr", make("thead", table));
    make("td", top);
    for (const token of keys) make("span", make("th", top, "", { scope: "col" }), shown(token));
    const body = make("tbody", table);
    const cells = queries.map((token, query) => {
      const row = make("tr", body);
      row.addEventListener("pointerenter", () => choose({ query }));
      make("th", row, shown(token), { scope: "row" });
      return [row, keys.map(() => make("td", row))];
    });

    make("h2", page, "All layers and heads");
    make("p", page, "Rows are layers, columns heads; choose one to see it above.", { class: "hint" });
    const all = make("table", make("div", page, "", { ...scroll, "aria-label": "all layers and heads" }), "",
      { class: "overview" });
    const numbers = make("tr", make("thead", all));
    make("td", numbers);
    heads(0).forEach((_, i) => make("th", numbers, i + 1, { scope: "col" }));
    const grid = make("tbody", all);
    const overview = map().weights.map((each, i) => {
      const row = make("tr", grid);
      make("th", row, `layer ${i + 1}`, { scope: "row" });
      return each.map((matrix, j) => {
        const label = `layer ${i + 1}, head ${j + 1}`;
        const button = make("button", make("td", row), "", { class: "small", type: "button", "aria-label": label });
        button.addEventListener("click", () => choose({ layer: i, head: j }));
        return [button, make("canvas", button, "", { "aria-hidden": "true" }), matrix];
      });
    });
    walk(grid, () => heads(0).length);
    parts = { layer, head, asking, title, answering, inside, side, beside, caption, cells, overview };
    paint();
  };

  // All of it again, where colours are others.
  const paint = () => {
    for (const row of parts.overview) for (const [, canvas, matrix] of row) draw(canvas, matrix);
    update();
  };

  const update = () => {
    const matrix = weights();
    const { queries, keys } = map();
    const whole = chosen.layer === MEAN;
    const where = whole ? "mean of all layers and heads"
      : `layer ${chosen.layer + 1}, ${nameOf("head", chosen.head)}`;
    parts.layer.value = chosen.layer;
    parts.head.value = chosen.head;
    parts.head.disabled = whole;
    parts.inside.hidden = whole;
    parts.asking.forEach((button, query) => press(button, query === chosen.query));
    const row = matrix[chosen.query];
    parts.title.textContent = `“${shown(queries[chosen.query])}” attends to (${where})`;
    parts.answering.forEach(([element, value], key) => {
      element.style.setProperty("--weight", shade(row[key]));
      element.classList.toggle("strong", row[key] >= 0.1);
      value.textContent = percent(row[key]);
    });
    parts.side.textContent = `Heads of layer ${chosen.layer + 1}`;
    parts.beside.forEach(([button, canvas], i) => {
      if (!whole) draw(canvas, heads(chosen.layer)[i]);
      press(button, i === chosen.head);
      if (chosen.head === MEAN && i === 0) button.tabIndex = 0;
    });
    parts.caption.textContent = `${where}: a row is a token that attends, a column one that is attended to.`;
    parts.cells.forEach(([line, each], query) => {
      line.classList.toggle("chosen", query === chosen.query);
      each.forEach((cell, key) => {
        cell.style.setProperty("--weight", shade(matrix[query][key]));
        cell.title = `${shown(queries[query])} → ${shown(keys[key])}: ${percent(matrix[query][key])}`;
        cell.setAttribute("aria-label", percent(matrix[query][key]));
      });
    });
    parts.overview.forEach((line, i) => line.forEach(([button], j) => {
      press(button, i === chosen.layer && j === chosen.head);
      if (chosen.head === MEAN && i === (whole ? 0 : chosen.layer) && j === 0) button.tabIndex = 0;
    }));
  };

  scheme.addEventListener("change", paint);
  build();
})();
