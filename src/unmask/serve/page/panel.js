// One decoder's half of the stage: counters, canvas, commit order, text, and the run as a file.

import { Canvas } from "./cells.js";
import { el, say, update } from "./dom.js";
import { CommitMap } from "./map.js";
import { END, number, remedy, visible } from "./words.js";

const COUNTERS = [
  ["NFE", "forward passes through the model so far"],
  ["filled", "positions committed, of the whole canvas"],
  ["tokens", "of the answer: committed before the first end of text"],
  ["time", "of decoding; where steps are shared with other canvases, this one's share"],
];

export class Panel {
  constructor(side, { onPick, onSeek }) {
    this.side = side;
    this.run = null;
    this.meanings = {}; // route -> a sentence, in the order in which they are told
    this.canvas = new Canvas(`canvas ${side}`, (position, how) => onPick(this, position, how));
    this.map = new CommitMap((step) => onSeek(this, step));
    this.title = el("h2", {}, "");
    this.badge = el("span", { class: "badge" });
    this.params = el("p", { class: "params" });
    this.counters = Object.fromEntries(COUNTERS.map(([name]) => [name, { value: el("dd"), more: el("dd", { class: "more" }) }]));
    this.answer = el("div", { class: "answer", "aria-label": `text ${side}` });
    this.legend = el("ul", { class: "um-legend", "aria-label": "routes" });
    this.problem = el("p", { class: "problem", role: "alert", hidden: true });
    this.notes = el("div", { class: "notes", role: "status" });
    this.save = el("button", { type: "button", class: "quiet", disabled: true, onclick: () => this.download() }, "Save run");
    this.node = el("section", { class: "panel", "aria-label": `decoder ${side}` },
      el("header", {}, el("div", { class: "name" }, this.title, this.badge), this.save), this.params,
      el("dl", { class: "counters" }, ...COUNTERS.map(([name, meaning]) =>
        el("div", { title: meaning }, el("dt", {}, name), this.counters[name].value, this.counters[name].more))),
      el("div", {}, this.problem, this.notes), el("div", {}, this.canvas.node, this.canvas.tail), this.legend, this.map.node, el("h3", { class: "label" }, "Text"), this.answer); // prettier-ignore
  }

  show(run) {
    this.run = run;
    this.save.disabled = true;
    this.problem.hidden = true;
    this.notes.replaceChildren();
    this.noted = "";
    this.map.clear();
  }

  call(name) {
    this.label = name;
    say(this.title, name);
  }

  empty(name, length) {
    this.show(null);
    this.call(name);
    say(this.params, "");
    this.state("");
    this.canvas.blank(length);
    this.legend.replaceChildren();
    this.answer.replaceChildren();
    this.count({ nfe: 0, filled: 0, seconds: 0 }, length, 0);
  }

  /** It failed, and why; or it was stopped, which is no failure. */
  ended(run) {
    if (!run.error) return this.state("stopped");
    say(this.problem, run.error);
    this.problem.hidden = false;
    this.state("failed");
  }

  draw(count, { guesses, still, fold, position, pinned }) {
    const run = this.run;
    if (!run?.header) return;
    const total = run.totals[count];
    say(this.params, changed(run));
    update(this.params, "title", changed(run));
    this.count(total, run.length, run.answerTokens(count));
    this.canvas.draw(run, count, { guesses, still, fold });
    this.canvas.mark(position, pinned);
    this.map.draw(run, count, position);
    this.tell(run, count);
    this.key(run, count);
    this.save.disabled = !(run.end || run.stopped);
    if (run.error || run.stopped) this.ended(run);
    else this.state(run.live ? "decoding" : count < run.steps.length ? "" : "done");
    this.note(run, count === run.steps.length);
  }

  count({ nfe, filled, seconds }, length, tokens) {
    const per = (amount, by, unit) => (by > 0 && amount > 0 ? `${number(amount / by)} ${unit}` : "");
    const rows = {
      NFE: [String(nfe), "forwards"],
      filled: [`${filled} / ${length}`, per(filled, nfe, "/ forward")],
      tokens: [String(tokens), per(tokens, nfe, "/ forward")],
      time: [`${seconds.toFixed(2)} s`, per(tokens, seconds, "tokens/s")],
    };
    for (const [name, [value, more]] of Object.entries(rows)) {
      say(this.counters[name].value, value);
      say(this.counters[name].more, more);
    }
  }

  state(name) {
    say(this.badge, name);
    this.badge.dataset.state = name;
  }

  /** What to know about this decode: words its model cannot read, and, once it is over, how it went wrong. */
  note(run, over) {
    const words = run.unknownWords.map((word) => `“${word}”`).join(", ");
    const told = words ? [["", `This model’s vocabulary lacks ${words}.`, ""]] : [];
    if (over) told.push(...run.warnings.map(({ code, sentence, fix }) => [code, `${sentence}.`, remedy(code, fix)]));
    if (this.noted === (this.noted = JSON.stringify(told))) return;
    this.notes.replaceChildren(...told.map(([code, sentence, fix]) =>
      el("p", { class: code ? "warned" : "unknown" }, capital(sentence), fix ? el("span", { class: "fix" }, ` ${fix}`) : null))); // prettier-ignore
  }

  /** The text as it stands: committed tokens up to the first end, and gaps the size of what is masked. */
  tell(run, count) {
    const parts = [];
    let gap = 0;
    const close = () => {
      if (gap) parts.push(el("span", { class: "gap", "aria-label": `${gap} masked` }, "░".repeat(Math.min(gap, 24))));
      gap = 0;
    };
    for (let position = 0; position < run.length; position += 1) {
      const token = run.at(position, count);
      if (!token) gap += 1;
      else if (run.ends(token.token)) {
        close();
        parts.push(el("span", { class: "end", "aria-label": "end of text" }, END));
        break;
      } else {
        close();
        parts.push(piece(run, token));
      }
    }
    close();
    this.answer.replaceChildren(...parts);
  }

  key(run, count) {
    const order = (route) => (Object.keys(this.meanings).indexOf(route) + 1 || 99);
    const counts = [...run.routes(count)].sort(([a], [b]) => order(a) - order(b));
    this.legend.replaceChildren(...counts.map(([route, n]) =>
      el("li", {}, el("span", { class: "um-key", "data-route": route }), el("span", { title: this.meanings[route] }, route), el("b", {}, String(n))))); // prettier-ignore
  }

  download() {
    const link = el("a", {
      href: URL.createObjectURL(new Blob([this.run.file()], { type: "application/x-ndjson" })),
      download: `${this.label}-${this.side}.trace.jsonl`,
    });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Line ends stay line ends in the text; everything else that cannot be seen becomes a sign. */
function piece(run, token) {
  const text = run.piece(token.token).split("\n").map(visible).join("\n");
  return document.createTextNode(text);
}

/** The options as they were resolved, without those that say nothing. */
function changed(run) {
  const shown = Object.entries(run.header.params ?? {}).filter(([name, value]) => name !== "settings" && value !== null && typeof value !== "boolean");
  const said = shown.map(([name, value]) => `${name}\u00a0${typeof value === "number" ? number(value) : value}`);
  return said.join("\u00a0· "); // a line ends behind a dot, never between a name and its value
}
