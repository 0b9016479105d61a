// Commit order under a canvas: positions from left to right, steps from top to bottom. A click goes to its step.

import { el, say, svg } from "./dom.js";

export class CommitMap {
  constructor(onSeek) {
    this.drawn = 0;
    this.run = null;
    this.marks = svg("g");
    this.line = svg("line", { class: "um-now", x1: 0, "vector-effect": "non-scaling-stroke" });
    this.spot = svg("rect", { class: "um-spot", y: 0, width: 1, x: -2 });
    this.picture = svg("svg", { class: "um-map", preserveAspectRatio: "none", role: "img" }, this.spot, this.marks, this.line);
    this.picture.addEventListener("click", (event) => {
      const box = this.picture.getBoundingClientRect();
      onSeek(Math.ceil(((event.clientY - box.top) / box.height) * this.height));
    });
    this.across = el("span");
    this.down = el("span");
    this.node = el("figure", { class: "map" }, this.picture,
      el("figcaption", {}, this.across, el("span", {}, "commit order"), this.down)); // prettier-ignore
    this.name(0, 0);
  }

  /** The axes, with how far they reach: each map has a scale of its own. */
  name(positions, steps) {
    say(this.across, positions ? `position 0 to ${positions - 1} →` : "position →");
    say(this.down, steps ? `step 1 to ${steps} ↓` : "step ↓");
  }

  get height() {
    return Math.max(1, this.run?.steps.length ?? 1);
  }

  draw(run, count, position) {
    if (run !== this.run) {
      this.run = run;
      this.drawn = 0;
      this.marks.replaceChildren();
    }
    this.name(run.length, run.steps.length);
    for (; this.drawn < run.steps.length; this.drawn += 1) this.add(run, this.drawn);
    this.picture.setAttribute("viewBox", `0 0 ${run.length} ${this.height}`);
    this.picture.setAttribute("aria-label", `commit order: ${run.length} positions from left to right, ${run.steps.length} steps from top to bottom`);
    [...this.marks.children].forEach((mark) => mark.classList.toggle("later", Number(mark.dataset.step) >= count));
    this.line.setAttribute("x2", run.length);
    this.line.setAttribute("y1", count);
    this.line.setAttribute("y2", count);
    this.spot.setAttribute("height", this.height);
    this.spot.setAttribute("x", position ?? -2);
  }

  add(run, number) {
    const step = run.steps[number];
    step.positions.forEach((position, i) => {
      if (!step.committed[i]) return;
      this.marks.append(svg("rect", {
        class: "um-mark", "data-route": step.verdicts[i], "data-step": number, x: position, y: number, width: 1, height: 1,
      })); // prettier-ignore
    });
  }

  clear() {
    this.run = null;
    this.drawn = 0;
    this.marks.replaceChildren();
    this.name(0, 0);
    this.line.setAttribute("y1", -1);
    this.line.setAttribute("y2", -1);
    this.spot.setAttribute("x", -2);
    this.picture.setAttribute("aria-label", "commit order: nothing decoded yet");
  }
}
