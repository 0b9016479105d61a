// The page, put together: the form starts decodes, the player moves, panels and ledger draw.

import { byId, el, say } from "./dom.js";
import { Form } from "./form.js";
import { Popover } from "./popover.js";
import { Panel } from "./panel.js";
import { Player } from "./player.js";
import { Run, TraceError } from "./run.js";
import { offer, Refused, useKey, watch } from "./stream.js";
import { themes, Transport } from "./transport.js";

const page = { offer: null, form: null, panels: [], stopping: null, position: null, pinned: false, dismissed: null, still: false };
const pointer = { x: -1, y: -1 };
const player = new Player(() => draw());
const transport = new Transport(player);
const popover = new Popover(byId("ledger"), () => pick(null, null, "close"));

async function start() {
  themes(byId("theme"));
  page.panels = ["A", "B"].map((side) => new Panel(side, { onPick: pick, onSeek: seek }));
  byId("form").addEventListener("submit", (event) => (event.preventDefault(), page.stopping ? stop() : decode()));
  byId("open").addEventListener("change", (event) => open([...event.target.files]).then(() => (event.target.value = "")));
  for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => drop(event, name));
  byId("key-form").addEventListener("submit", (event) => (event.preventDefault(), connect(byId("key").value)));
  for (const id of ["decoder-a", "decoder-b", "canvas-length"]) byId(id).addEventListener("change", () => player.runs.length || blank());
  await connect();
}

/** With a key that was typed in, if the server asks for one. */
async function connect(given = null) {
  useKey(given);
  try {
    page.offer = await offer();
  } catch (error) {
    if (error.status === 401) ask(given === null ? "" : "that key was not accepted");
    else complain(error.message);
    return;
  }
  byId("key-form").hidden = true;
  complain("");
  say(byId("model"), page.offer.model);
  page.panels.forEach((panel) => (panel.meanings = page.offer.routes));
  explain(page.offer);
  if (!page.form) {
    page.form = new Form(page.offer); // once: it listens to the fields, and keeps what was typed into them
    blank();
  }
  document.documentElement.dataset.ready = "";
}

function ask(complaint) {
  complain(complaint);
  byId("key-form").hidden = false;
  byId("key").value = "";
  byId("key").focus();
}

/** Before the first decode: empty canvases, so that one sees what there is to fill. */
function blank() {
  const names = page.form.sides.map((side) => side.name).filter(Boolean);
  const length = Math.max(1, Math.min(page.form.canvasLength, page.offer.max_canvas)) || page.offer.canvas_length;
  seatPanels(names.length);
  names.forEach((name, i) => page.panels[i].empty(name, length));
}

/** What the colours, the reasons and the keys mean, at the foot of the page. */
function explain({ routes, reasons }) {
  const row = (term, words) => [el("dt", {}, ...term), el("dd", {}, words)];
  byId("routes").replaceChildren(...Object.entries(routes).flatMap(([route, words]) =>
    row([el("span", { class: "um-key", "data-route": route }), route], words))); // prettier-ignore
  byId("reasons").replaceChildren(...Object.entries(reasons).flatMap(([reason, words]) => row([reason], words)));
}

function seatPanels(count) {
  byId("stage").replaceChildren(...page.panels.slice(0, count).map((panel) => panel.node));
  byId("stage").dataset.panels = count;
}

async function decode() {
  const requests = page.form.requests();
  if (!requests.length) return;
  const controller = new AbortController();
  page.stopping = controller;
  busy(true);
  complain("");
  const length = page.form.canvasLength;
  seatPanels(requests.length);
  requests.forEach((request, i) => page.panels[i].empty(request.decoder, Math.min(length, page.offer.max_canvas)));
  const runs = requests.map(() => new Run());
  load(runs, requests.map((request) => request.decoder));
  player.play();
  reveal();
  const heard = (run, i) => page.stopping === controller && arrived(run, i); // not once another run has been opened
  await Promise.all(requests.map(async (request, i) => {
    try {
      heard(await watch(request, controller.signal, (run) => heard(run, i)), i);
    } catch (error) {
      if (error.name === "AbortError") runs[i].stopped = true;
      else runs[i].error = error.message;
      if (error instanceof Refused && error.status === 401 && page.stopping === controller) ask("");
      heard(runs[i], i);
    }
  })); // prettier-ignore
}

/** A run has grown, or has just begun: it takes its place in the player. */
function arrived(run, i) {
  if (player.runs[i] !== run) {
    if (!run.header && run.live) return;
    player.runs[i] = run;
    page.panels[i].show(run);
  }
  if (!run.header) page.panels[i].ended(run);
  settle();
  draw();
}

function settle() {
  if (page.stopping && !player.live) {
    page.stopping = null;
    busy(false);
  }
}

/** The canvases are what one wants to watch: bring them up where they are mostly out of sight. A pointer that has
    not moved then does not point at what comes to lie under it. */
function reveal() {
  page.still = true;
  const { top } = byId("stage").getBoundingClientRect();
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (top > 0.3 * window.innerHeight) byId("stage").scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
}

function moved({ clientX, clientY }) {
  if (clientX !== pointer.x || clientY !== pointer.y) page.still = false;
  [pointer.x, pointer.y] = [clientX, clientY];
}

function stop() {
  page.stopping.abort();
}

/** What is decoding makes room for something else: nothing more is heard of it. */
function abandon() {
  stop();
  page.stopping = null;
  busy(false);
}

function busy(on) {
  say(byId("decode"), on ? "Stop" : "Decode");
  byId("decode").classList.toggle("stop", on);
  byId("intro").hidden = true;
}

function load(runs, names) {
  player.load(runs);
  names.forEach((name, i) => page.panels[i].call(name));
  page.position = null;
  popover.hide();
}

async function open(files) {
  if (!files.length) return;
  try {
    if (files.length > 2) throw new TraceError("open one run, or two to compare");
    const runs = await Promise.all(files.map(async (file) => Run.parse(await file.text(), file.name)));
    if (page.stopping) abandon();
    complain("");
    byId("intro").hidden = true;
    seatPanels(runs.length);
    runs.forEach((run, i) => page.panels[i].show(run));
    load(runs, runs.map((run) => run.name)); // prettier-ignore
    const prompt = runs[0].header.prompt;
    if (page.form && typeof prompt === "string") page.form.prompt.value = prompt;
    player.seek(player.end);
  } catch (error) {
    complain(error instanceof TraceError ? error.message : "that file could not be read");
  }
}

function drop(event, name) {
  if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
  event.preventDefault();
  if (name === "drop") open([...event.dataTransfer.files]);
}

function complain(message) {
  say(byId("alert"), message);
  byId("alert").hidden = !message;
}

function draw() {
  const { position, pinned } = page;
  page.panels.forEach((panel, i) => {
    const run = player.runs[i];
    if (run?.header) panel.draw(player.steps(run), { ...shown(), still: player.still(run), position, pinned });
  });
  transport.draw();
  popover.refresh(player, page);
}

const shown = () => ({ guesses: byId("guesses").checked, fold: !byId("tail").checked });

/** A position was pointed at, focused or pinned in one of the canvases; the other canvas marks it too. */
function pick(panel, position, how) {
  if ((how === "leave" || how === "hover") && page.pinned) return;
  if (how === "hover" && (page.still || popover.narrow)) return;
  const here = `${panel?.side} ${position}`;
  if (how === "hover" && page.dismissed === here) return; // closed a moment ago, and the pointer has not left
  page.dismissed = how === "close" ? `${popover.panel?.side} ${page.position}` : null;
  const again = how === "pin" && page.pinned && page.position === position && popover.panel === panel;
  page.pinned = how === "pin" && !again;
  page.position = how === "leave" || how === "close" || again ? null : position;
  if (page.position === null || !panel?.run?.header) popover.hide();
  else popover.show(panel, page.position, page.pinned);
  draw();
}

function seek(panel, step) {
  player.playing = false;
  player.seek(player.mode === "steps" ? step : (panel.run.totals[step]?.seconds ?? 0));
}

for (const kind of ["pointermove", "pointerover"]) document.addEventListener(kind, moved, { capture: true });
byId("tail").checked = !matchMedia("(max-width: 720px)").matches;
byId("tail").addEventListener("change", () => pick(null, null, "close"));
byId("guesses").addEventListener("change", draw);
start();
