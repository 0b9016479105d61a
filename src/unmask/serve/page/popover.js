// Where the ledger is shown: beside its token on a wide screen, above the playback bar on a narrow one.

import { el } from "./dom.js";
import { drawLedger } from "./ledger.js";
import { quoted } from "./words.js";

const GAP = 8;
const NARROW = matchMedia("(max-width: 720px)");

export class Popover {
  constructor(node, onClose) {
    this.node = node;
    this.panel = null;
    this.position = null;
    this.pinned = false;
    this.onClose = onClose;
    this.drawn = "";
    document.addEventListener("keydown", (event) => event.key === "Escape" && !node.hidden && onClose());
    for (const name of ["scroll", "resize"]) window.addEventListener(name, () => this.place(), { passive: true });
  }

  /** A narrow screen's ledger lies over the canvas: it waits to be asked for, by a tap or by the keyboard. */
  get narrow() {
    return NARROW.matches;
  }

  show(panel, position, pinned) {
    [this.panel, this.position, this.pinned, this.drawn] = [panel, position, pinned, ""];
  }

  hide() {
    this.panel = null;
    this.node.hidden = true;
  }

  refresh(player, { offer, panels }) {
    if (!this.panel?.run?.header) return;
    const run = this.panel.run;
    const count = player.steps(run);
    const drawn = `${this.panel.side} ${this.position} ${count} ${this.pinned}`;
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const vocabulary = offer ?? { routes: { __proto__: null }, reasons: { __proto__: null } };
    const other = panels.find((one) => one !== this.panel && player.runs.includes(one.run) && this.position < one.run.length);
    const close = el("button", { type: "button", class: "close", "aria-label": "close the ledger", onclick: this.onClose }, "×");
    this.node.replaceChildren(close, drawLedger(run, this.position, count, vocabulary), ...meanwhile(other, this.position, player));
    this.node.classList.toggle("pinned", this.pinned);
    this.node.hidden = false;
    this.place();
    if (NARROW.matches && this.pinned) this.uncover();
  }

  /** On a narrow screen the ledger lies over the canvas: the token moves above it. */
  uncover() {
    const hidden = this.panel.canvas.cells[this.position].getBoundingClientRect().bottom - this.node.getBoundingClientRect().top;
    if (hidden > -12) window.scrollBy({ top: hidden + 24 });
  }

  /** Beside the token and never over it: below, above, to the right, to the left, wherever there is room first. */
  place() {
    if (!this.panel || this.node.hidden) return;
    const bar = document.querySelector(".transport").offsetHeight;
    this.node.style.setProperty("bottom", NARROW.matches ? `${bar}px` : "auto");
    if (NARROW.matches) {
      for (const side of ["left", "top"]) this.node.style.removeProperty(side);
      return;
    }
    const cell = this.panel.canvas.cells[this.position].getBoundingClientRect();
    const { width, height } = this.node.getBoundingClientRect();
    const [right, bottom] = [document.documentElement.clientWidth - width - GAP, window.innerHeight - bar - height - GAP];
    const within = (value, most) => Math.max(GAP, Math.min(value, most));
    const places = [
      [within(cell.left, right), cell.bottom + GAP, cell.bottom + GAP <= bottom],
      [within(cell.left, right), cell.top - GAP - height, cell.top - GAP - height >= GAP],
      [cell.right + GAP, within(cell.top - height / 3, bottom), cell.right + GAP <= right],
      [cell.left - GAP - width, within(cell.top - height / 3, bottom), true],
    ];
    const [left, top] = places.find(([, , fits]) => fits);
    this.node.style.setProperty("left", `${Math.max(GAP, left)}px`);
    this.node.style.setProperty("top", `${top}px`);
  }
}

/** The other decoder at the same position, in a line. */
function meanwhile(other, position, player) {
  if (!other) return [];
  const run = other.run;
  const token = run.at(position, player.steps(run));
  const piece = token ? (run.ends(token.token) ? "end of text" : quoted(run.piece(token.token))) : "";
  const words = token ? `${piece} at step ${token.step + 1}, by ${token.route}` : "still masked";
  return [el("p", { class: "meanwhile" }, `${other.label}: ${words}`)];
}
