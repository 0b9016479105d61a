// What to decode and how: the prompt, one or two decoders, and a field for each of their options.

import { byId, el } from "./dom.js";

export class Form {
  constructor(offer) {
    this.offer = offer;
    this.prompt = byId("prompt");
    this.prompt.maxLength = offer.max_prompt;
    this.sides = ["a", "b"].map((side) => new Chooser(side, offer));
    this.length = byId("canvas-length");
    this.length.placeholder = String(offer.canvas_length);
    this.length.max = String(offer.max_canvas);
    this.seed = byId("seed");
    this.sides[0].choose(offer.decoder);
    this.sides[1].choose(offer.decoder === "default" ? "rpd" : "default");
    this.drawExamples();
  }

  drawExamples() {
    const buttons = this.offer.examples.map(({ kind, prompt }) =>
      el("button", { type: "button", class: "example", title: prompt, onclick: () => this.use(prompt) },
        el("small", {}, kind), prompt),
    ); // prettier-ignore
    byId("examples").replaceChildren(...buttons);
    if (!this.prompt.value && this.offer.examples.length) this.prompt.value = this.offer.examples[0].prompt;
  }

  use(prompt) {
    this.prompt.value = prompt;
    this.prompt.focus();
  }

  get canvasLength() {
    return this.length.value ? Number(this.length.value) : this.offer.canvas_length;
  }

  /** One request per chosen decoder. */
  requests() {
    const shared = { prompt: this.prompt.value, seed: Number(this.seed.value || 0) };
    if (this.length.value) shared.canvas_length = Number(this.length.value);
    return this.sides.filter((side) => side.name).map((side) => ({ ...shared, decoder: side.name, options: side.options() }));
  }
}

class Chooser {
  constructor(side, offer) {
    this.offer = offer;
    this.side = side;
    this.select = byId(`decoder-${side}`);
    this.fields = byId(`options-${side}`);
    this.count = byId(`changed-${side}`);
    const names = offer.decoders.map((decoder) => el("option", { value: decoder.name }, decoder.name));
    this.select.replaceChildren(...(side === "b" ? [el("option", { value: "" }, "none"), ...names] : names));
    this.select.addEventListener("change", () => this.choose(this.select.value));
  }

  get name() {
    return this.select.value;
  }

  choose(name) {
    this.select.value = name;
    const decoder = this.offer.decoders.find((one) => one.name === name);
    byId(`summary-${this.side}`).textContent = decoder ? decoder.summary : "one canvas only";
    this.fields.replaceChildren(...(decoder?.options ?? []).map((option) => this.field(option)));
    this.fields.closest("details").hidden = !decoder?.options.length;
    this.tally();
  }

  field(option) {
    const id = `${this.side}-${option.name}`;
    const input = control(option, id);
    input.addEventListener("change", () => this.tally());
    return el("div", { class: "field" }, el("label", { for: id }, option.name), input, el("p", { id: `${id}-doc` }, option.doc));
  }

  inputs() {
    return [...this.fields.querySelectorAll("input, select")];
  }

  tally() {
    const changed = Object.keys(this.options()).length;
    this.count.textContent = changed ? `${changed} changed` : "";
  }

  /** Only what differs from the default is sent; an empty field means the default. */
  options() {
    const decoder = this.offer.decoders.find((one) => one.name === this.name);
    const chosen = {};
    for (const option of decoder?.options ?? []) {
      const input = this.inputs().find((one) => one.id === `${this.side}-${option.name}`);
      const value = read(option, input);
      if (value !== undefined && value !== option.default) chosen[option.name] = value;
    }
    return chosen;
  }
}

function control(option, id) {
  const shared = { id, "aria-describedby": `${id}-doc` };
  if (option.type === "bool") return el("input", { ...shared, type: "checkbox", checked: option.default === true });
  if (option.choices.length) {
    const empty = option.nullable ? [el("option", { value: "" }, option.resolved === null ? "none" : `default (${option.resolved})`)] : [];
    const known = option.choices.map((value) => el("option", { value, selected: value === option.default }, value));
    return el("select", shared, ...empty, ...known);
  }
  const numeric = option.type === "float" || option.type === "int";
  return el("input", {
    ...shared, type: "text", inputmode: numeric ? "decimal" : "text", spellcheck: "false", autocomplete: "off",
    placeholder: option.resolved === null ? "none" : String(option.resolved),
  }); // prettier-ignore
}

function read(option, input) {
  if (option.type === "bool") return input.checked;
  const text = input.value.trim();
  if (!text) return undefined;
  if (text === "none" && option.nullable) return null;
  const value = Number(text.replace(",", "."));
  return option.type === "str" || Number.isNaN(value) ? text : value; // the server says what is wrong with it
}
