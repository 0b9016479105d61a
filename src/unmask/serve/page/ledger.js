// The ledger of one position: what became of it, the numbers behind that, and why it waited before.

import { el } from "./dom.js";
import { END, number, plural, quoted, reason } from "./words.js";

const NUMBERS = [
  ["c", "confidence c", "probability of the token"],
  ["H", "entropy H", "nats of uncertainty at this position"],
  ["K", "persistence K", "layers, up to the last, that agree on the token"],
  ["r", "drop r", "probability lost since its peak in those layers"],
  ["S", "stability S", "min(K, k_max) − w·r"],
  ["E", "upstream E", "nats of uncertainty that stay masked before it"],
  ["score", "score", "what the decoder ranks by"],
];

/** Everything the ledger says, as data: the page draws it, tests read it. */
export function ledgerOf(run, position, count) {
  const token = run.at(position, count);
  const seats = run.history(position, count);
  const seat = token && token.step >= 0 ? run.seat(token.step, position) : (seats.at(-1) ?? null);
  return { position, token, seat, waited: spells(run, seats.filter((one) => !one.committed)) };
}

/** Consecutive steps with the same reason are told once, from their first numbers to their last. */
function spells(run, seats) {
  const told = [];
  for (const seat of seats) {
    const last = told.at(-1);
    if (last && last.verdict === seat.verdict && last.to.step === seat.step - 1) last.to = seat;
    else told.push({ verdict: seat.verdict, from: seat, to: seat });
  }
  return told;
}

export function drawLedger(run, position, count, vocabulary) {
  const { token, seat, waited } = ledgerOf(run, position, count);
  return el("div", { class: "ledger-body" },
    heading(run, position, token, seat),
    verdict(run, token, seat, vocabulary),
    seat ? figures(run, seat) : null,
    waited.length ? history(run, waited, vocabulary, Boolean(token)) : null); // prettier-ignore
}

function heading(run, position, token, seat) {
  const shown = token ?? seat;
  const name = shown ? (run.ends(shown.token) ? `${END} end of text` : quoted(run.piece(shown.token))) : "masked";
  return el("h3", {}, el("span", { class: token ? "piece" : "piece guess" }, name), el("small", {}, `position ${position}`));
}

function verdict(run, token, seat, vocabulary) {
  if (token) {
    const words = vocabulary.routes[token.route] ?? "";
    const when = token.step < 0 ? "" : `committed at step ${token.step + 1}, `;
    return el("p", { class: "verdict" }, el("span", { class: "um-key", "data-route": token.route }),
      el("span", {}, when, el("b", {}, token.route), words ? ` — ${words}` : "")); // prettier-ignore
  }
  if (!seat) return el("p", { class: "verdict" }, "not looked at yet");
  const words = vocabulary.reasons[seat.verdict] ?? seat.verdict;
  const why = besides(words, reason(seat.verdict, seat.values, seat.threshold, run.params));
  return el("p", { class: "verdict" }, "masked; this is the present guess. It waits: ", el("b", {}, words), why ? ` (${why})` : "");
}

/** The numbers of a reason, without the words that were just said. */
const besides = (words, why) => (why === words ? "" : why.replace(`, ${words}`, ""));

function figures(run, seat) {
  const rows = NUMBERS.filter(([name]) => seat.values[name] !== undefined).map(([name, label, meaning]) =>
    el("div", { class: "figure", title: meaning }, el("dt", {}, label), el("dd", {}, number(seat.values[name]), limit(run, seat, name)), gauge(run, seat, name)),
  );
  return el("dl", { class: "figures" }, ...rows, unread(run, seat));
}

/** RPD reads the layers only where they can change the outcome (docs/decoders.md): why not here. */
function unread(run, seat) {
  const { theta_s: needed, theta_c: low, theta_h: high } = run.params;
  if (typeof needed !== "number" || low === high || seat.values.K !== undefined) return null;
  const { c } = seat.values;
  const why = c >= high ? "confidence alone decides" : c < low ? "too uncertain to be a candidate" : "E above β decides";
  return el("div", { class: "figure" }, el("dt", {}, "K, r, S"), el("dd", {}, el("small", {}, `not read: ${why}`)));
}

/** What a number was held against, where the decoder has such a bound. */
function bounds(run, seat, name) {
  const params = run.params;
  const known = (value) => typeof value === "number";
  if (name === "c") return ["theta_c", "theta_h", "threshold", "direct"].filter((p) => known(params[p])).map((p) => [p, params[p]]);
  if (name === "S" && known(params.theta_s)) return [["theta_s", params.theta_s]];
  if (name === "E" && known(seat.threshold)) return [["β", seat.threshold]];
  if (name === "score" && known(seat.threshold) && params.gamma !== undefined) return [["γ", seat.threshold]];
  return [];
}

function limit(run, seat, name) {
  const found = bounds(run, seat, name);
  const text = found.map(([label, value]) => `${label.replace("theta_", "θ")} ${number(value)}`).join(", ");
  return found.length ? el("small", {}, ` against ${text}`) : null;
}

/** A bar with a tick at each bound: E may not pass β, c and S must reach θ. */
function gauge(run, seat, name) {
  const found = bounds(run, seat, name);
  if (!found.length && name !== "c") return null;
  const value = seat.values[name];
  const top = name === "c" ? 1 : Math.max(...found.map(([, bound]) => bound), Number.isFinite(value) ? value : 0) * 1.15 || 1;
  const share = (x) => Math.max(0, Math.min(1, x / top));
  const bar = el("span", { class: "bar" });
  bar.style.setProperty("--share", share(value));
  const ticks = found.map(([, bound]) => {
    const tick = el("span", { class: "tick" });
    tick.style.setProperty("--share", share(bound));
    return tick;
  });
  const over = name === "E" && found.length && value > found[0][1];
  return el("span", { class: over ? "gauge over" : "gauge", "aria-hidden": "true" }, bar, ...ticks);
}

function history(run, waited, vocabulary, done) {
  const items = waited.map(({ verdict: name, from, to }) => {
    const steps = from.step === to.step ? `step ${from.step + 1}` : `steps ${from.step + 1}–${to.step + 1}`;
    const why = besides(vocabulary.reasons[name], reason(name, to.values, to.threshold, run.params));
    const path = (key) => (from.step === to.step ? number(to.values[key]) : `${number(from.values[key])} → ${number(to.values[key])}`);
    const guess = (seat) => (run.ends(seat.token) ? END : quoted(run.piece(seat.token)));
    const guesses = from.token === to.token ? guess(to) : `${guess(from)} → ${guess(to)}`;
    const numbers = [`c ${path("c")}`, to.values.E === undefined ? null : `E ${path("E")}`].filter(Boolean).join(", ");
    return el("li", {}, el("b", {}, steps), ` ${vocabulary.reasons[name] ?? name}`,
      el("div", { class: "trail" }, why ? `${why}\n` : "", `${guesses}  ·  ${numbers}`)); // prettier-ignore
  });
  const count = waited.reduce((sum, { from, to }) => sum + to.step - from.step + 1, 0);
  return el("details", { class: "waited", open: items.length <= 6 },
    el("summary", {}, `${done ? "why it waited before" : "why it has waited"} (${plural(count, "step")})`), el("ol", {}, ...items)); // prettier-ignore
}
