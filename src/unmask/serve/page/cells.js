// The canvas: one cell per position, as a list box that arrow keys walk through.

import { el, say, update } from "./dom.js";
import { END, isLong, quoted, reason, shown, tenths } from "./words.js";

/** What a position shows after `count` steps. The last state of a run is what unmask/view.py draws. */
export function cellOf(run, position, count) {
  const token = run.at(position, count);
  if (!token) return { text: "", route: "", strength: 0, end: false, label: `position ${position}: masked` };
  const end = run.ends(token.token);
  const piece = run.piece(token.token);
  const base = { text: shown(piece, end), route: token.route, end, strength: tenths(token.values.c) };
  if (token.step < 0) return { ...base, label: `position ${position}: ${quoted(piece)}, given` };
  const why = reason(token.route, token.values, token.threshold, run.params);
  const name = end ? "end of text" : quoted(piece);
  const label = `position ${position}: ${name}, step ${token.step + 1}, ${token.route}${why ? `: ${why}` : ""}`;
  return { ...base, label, fresh: token.step === count - 1 };
}

export class Canvas {
  /** `onPick(position, how)` with how = "hover", "focus", "pin" or "leave". */
  constructor(label, onPick) {
    this.onPick = onPick;
    this.cells = [];
    this.current = 0;
    this.seen = 0; // cells that are shown; the others are folded away
    this.tail = el("p", { class: "tail", hidden: true });
    this.node = el("div", { class: "um-canvas", role: "listbox", "aria-label": label, "aria-orientation": "horizontal" });
    this.node.addEventListener("pointerover", (event) => this.from(event, "hover"));
    this.node.addEventListener("pointerleave", () => this.onPick(null, "leave"));
    this.node.addEventListener("focusin", (event) => this.from(event, "focus"));
    this.node.addEventListener("focusout", (event) => this.node.contains(event.relatedTarget) || this.onPick(null, "leave"));
    this.node.addEventListener("click", (event) => this.from(event, "pin"));
    this.node.addEventListener("keydown", (event) => this.key(event));
  }

  from(event, how) {
    const cell = event.target.closest?.(".um-cell");
    if (!cell || (how === "hover" && event.pointerType === "touch")) return;
    const position = Number(cell.dataset.position);
    if (how !== "hover") this.rove(position);
    // A press gives the focus before it is a click: what it opened then could lie under the pointer and catch the click.
    if (how !== "focus" || cell.matches(":focus-visible")) this.onPick(position, how);
  }

  resize(length) {
    if (this.cells.length === length) return;
    this.cells = Array.from({ length }, (_, position) =>
      el("div", { class: "um-cell", role: "option", tabindex: position ? -1 : 0, "data-position": position, "data-route": "" },
        el("span", { class: "um-text" })),
    ); // prettier-ignore
    this.current = 0;
    this.seen = length;
    this.node.replaceChildren(...this.cells);
  }

  /** Masked cells show the latest guess, faintly, and mark those that only wait for what is before them. */
  draw(run, count, { guesses, still, fold }) {
    this.resize(run.length);
    this.fold(run, count, fold ? run.body : run.length);
    for (let position = 0; position < run.length; position += 1) {
      const node = this.cells[position];
      const cell = cellOf(run, position, count);
      const seat = cell.route === "" && count > 0 ? run.seat(count - 1, position) : null;
      const guess = seat && guesses ? shown(run.piece(seat.token), run.ends(seat.token)) : "";
      say(node.firstChild, cell.text || guess);
      update(node, "data-route", cell.route);
      update(node, "data-strength", cell.route === "" ? null : cell.strength);
      update(node, "data-long", isLong(node.textContent) ? "" : null);
      update(node, "data-end", cell.end ? "" : null);
      update(node, "data-fresh", cell.fresh && !still ? "" : null);
      update(node, "data-wait", seat && !seat.committed ? seat.verdict : null);
      update(node, "aria-label", seat && guesses ? `${cell.label}, ${seat.verdict}, guess ${guess}` : cell.label);
    }
  }

  /** The tail behind the answer is told in a line. */
  fold(run, count, seen) {
    if (seen !== this.seen) this.cells.forEach((node, position) => (node.hidden = position >= seen));
    this.seen = seen;
    this.tail.hidden = seen === run.length;
    if (this.tail.hidden) return;
    let filled = 0;
    for (let position = seen; position < run.length; position += 1) filled += run.at(position, count) !== null;
    const all = run.length - seen;
    say(this.tail, `… ${END} ${seen}–${run.length - 1}: ${filled === all ? `${all} filled` : `${filled} of ${all} filled`}`);
    this.tail.style.setProperty("--share", filled / all);
  }

  blank(length) {
    this.resize(length);
    this.seen = length;
    this.tail.hidden = true;
    this.cells.forEach((node) => (node.hidden = false));
    this.cells.forEach((node, position) => {
      say(node.firstChild, "");
      for (const name of ["data-strength", "data-end", "data-long", "data-fresh", "data-wait"]) node.removeAttribute(name);
      update(node, "data-route", "");
      update(node, "aria-label", `position ${position}: masked`);
    });
  }

  mark(position, pinned) {
    this.cells.forEach((node, at) => {
      update(node, "data-marked", at === position ? "" : null);
      update(node, "aria-selected", at === position && pinned ? "true" : null);
    });
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns(), ArrowUp: -this.columns() }[event.key];
    const target = event.key === "Home" ? 0 : event.key === "End" ? this.seen - 1 : step ? this.current + step : null;
    if (target !== null) {
      event.preventDefault();
      event.stopPropagation();
      if (target >= 0 && target < this.seen) {
        this.rove(target);
        this.cells[target].focus();
      }
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.onPick(this.current, "pin");
    }
  }

  /** Only one cell is in the tab order: the one that was last looked at. */
  rove(position) {
    this.cells[this.current]?.setAttribute("tabindex", "-1");
    this.current = position;
    this.cells[position].setAttribute("tabindex", "0");
  }

  columns() {
    const top = this.cells[0]?.offsetTop;
    const next = this.cells.findIndex((cell) => cell.offsetTop !== top);
    return next < 0 ? this.cells.length : next;
  }
}
