// Play, pause, step, scrub: buttons, the slider, and the keys that do the same.

import { byId, el, say } from "./dom.js";
import { SPEEDS } from "./player.js";

export class Transport {
  constructor(player) {
    this.player = player;
    this.scrub = byId("scrub");
    const actions = {
      first: () => (player.pause(), player.seek(0)),
      back: () => player.nudge(-1),
      play: () => player.toggle(),
      forward: () => player.nudge(1),
      last: () => (player.pause(), player.seek(player.end)),
    };
    for (const [id, action] of Object.entries(actions)) byId(id).addEventListener("click", action);
    this.scrub.addEventListener("input", () => ((player.playing = false), player.seek(Number(this.scrub.value))));
    byId("mode").addEventListener("change", (event) => player.measure(event.target.value));
    byId("speed").append(...SPEEDS.map((speed) => el("option", { value: speed, selected: speed === 1 }, `${speed}×`)));
    byId("speed").addEventListener("change", (event) => (player.speed = Number(event.target.value)));
    const keys = { " ": actions.play, ",": actions.back, ".": actions.forward, Home: actions.first, End: actions.last };
    document.addEventListener("keydown", (event) => this.key(event, keys[event.key]));
    this.draw();
  }

  /** Keys belong to whatever is being typed into or pressed; everywhere else they move the playback. */
  key(event, action) {
    const busy = event.target.closest?.("input, textarea, select, button, summary, a, label");
    if (!action || event.ctrlKey || event.metaKey || event.altKey || (busy && event.target !== this.scrub)) return;
    if (!this.player.runs.length) return;
    event.preventDefault();
    action();
  }

  draw() {
    const { player, scrub } = this;
    const some = player.runs.some((run) => run.header);
    const steps = player.mode === "steps";
    scrub.disabled = !some;
    scrub.step = steps ? "1" : "any"; // rounded to hundredths, the end could not be reached
    scrub.max = String(player.end);
    scrub.value = String(steps ? Math.floor(player.position + 1e-9) : player.position);
    const at = steps ? `${Math.floor(player.position + 1e-9)} / ${player.end}` : `${player.position.toFixed(2)} / ${player.end.toFixed(2)} s`;
    say(byId("where"), at);
    scrub.setAttribute("aria-valuetext", steps ? `step ${at}` : at);
    scrub.style.setProperty("--done", player.end ? player.position / player.end : 0);
    for (const id of ["first", "back", "play", "forward", "last"]) byId(id).disabled = !some;
    byId("play").setAttribute("aria-label", player.playing ? "pause" : "play");
    byId("play").classList.toggle("on", player.playing);
  }
}

/** auto follows the system; the choice is kept where the browser lets us. */
export function themes(button) {
  const order = ["auto", "light", "dark"];
  const root = document.documentElement;
  const label = () => say(button, `Theme: ${root.dataset.theme ?? "auto"}`);
  button.addEventListener("click", () => {
    const next = order[(order.indexOf(root.dataset.theme ?? "auto") + 1) % order.length];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      localStorage.setItem("unmask-theme", next);
    } catch {
      // no storage: the choice lasts as long as the page
    }
    label();
  });
  label();
}
