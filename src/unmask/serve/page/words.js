// Numbers, pieces and reasons as people read them: the same words as unmask/wording.py, show.py and replay.py.

export const END = "∎";

/** Three significant digits: 0.973, 6.2, 160, inf, - for what was not computed. */
export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "-";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1000) return value.toFixed(0);
  if (size < 1e-4) return exponent(value);
  const text = value.toPrecision(3);
  return text.includes("e") ? String(Number(text)) : text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** 1.23e-05, as Python spells it. */
function exponent(value) {
  const [digits, power] = value.toExponential(2).split("e");
  const sign = power.startsWith("-") ? "-" : "+";
  return `${digits.replace(/\.?0+$/, "")}e${sign}${power.replace(/^[+-]/, "").padStart(2, "0")}`;
}

export function duration(seconds) {
  if (seconds < 0.0995) return `${number(seconds * 1000)} ms`;
  return seconds < 100 ? `${seconds.toFixed(2)} s` : `${(seconds / 60).toFixed(1)} min`;
}

/** A warning's fix in this page's terms; the library's own, for the command line, where there is none. */
export const remedy = (code, fix) => REMEDIES[code] ?? `To mend it: ${fix}.`;
const ORDER = "rpd holds back what depends on masked text.";
const REMEDIES = {
  __proto__: null, // a file may say "constructor": only what stands here is known
  "premature-end": ORDER,
  "premature-answer": ORDER,
  truncated: "A longer canvas gives it more room.",
  empty: ORDER,
  "greedy-entropy-order": "Set its temperature to 0.1 and top_p to 0.9, or choose rpd.",
};

export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** A piece without anything that could move or hide: line ends and odd characters become signs. */
export function visible(piece) {
  return piece
    .replace(/\n/g, "↵")
    .replace(/[\t\p{Zs}]/gu, " ")
    .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "�");
}

export const quoted = (piece) => `“${visible(piece)}”`;

/** A piece in its cell: a leading space says nothing there; where there is nothing else, spaces are counted. */
export function shown(piece, end) {
  const text = visible(piece);
  return end ? END : text.trim() || `␣${text.length > 1 ? text.length : ""}`;
}

/** More than a cell holds in its usual size. */
export const isLong = (text) => text.length > 6;

export const tenths = (confidence) => Math.max(0, Math.min(9, Math.floor(confidence * 10)));

/** Why a position was committed or waits, with the numbers that decided it. */
export function reason(verdict, values, threshold, params) {
  return REASONS[verdict]?.(values, threshold, params) ?? "";
}

const known = (value) => typeof value === "number" && !Number.isNaN(value);

function against(values, params, names, sign, holds) {
  for (const name of names) {
    if (known(params[name]) && holds(values.c, params[name])) {
      return `c ${number(values.c)} ${sign} ${name} ${number(params[name])}`;
    }
  }
  return `c ${number(values.c)}`;
}

function stability(values, sign, params) {
  if (!known(values.S)) return "";
  const told = `S ${number(values.S)} ${sign} theta_s ${number(params.theta_s)}`;
  return `${told} (K ${number(values.K)}, r ${number(values.r)})`;
}

function rank(values, threshold, params) {
  const [name, limit] = SCORES[params.decoder] ?? ["score", ""];
  if (!known(values.score)) return "others ranked higher";
  if (limit && known(threshold)) return `${name} ${number(values.score)} > ${limit} ${number(threshold)}`;
  return `${name} ${number(values.score)}, others ranked higher`;
}

const scored = (words) => (values) => (known(values.score) ? `${words}, score ${number(values.score)}` : words);
const SCORES = { __proto__: null, "eb-sampler": ["d", "gamma"], dapd: ["degree x c", "tau"], lopa: ["branch", ""] };
const REASONS = {
  __proto__: null,
  confidence: (values, _, params) => against(values, params, ["theta_h", "threshold"], ">=", (c, t) => c >= t),
  stability: (values, _, params) => stability(values, ">=", params),
  fallback: (values) => `nothing qualified; the best allowed, c ${number(values.c)}`,
  schedule: scored("among the best of this step's quota"),
  chance: () => "drawn by the schedule",
  budget: (values, threshold) =>
    known(values.score) && known(threshold)
      ? `d ${number(values.score)} ${values.score <= threshold ? "<=" : ">"} gamma ${number(threshold)}`
      : "",
  direct: (values, _, params) => {
    const limit = params.variant === "staged" ? "staged_confidence" : "direct"; // DAPD's two ways to be certain
    return `c ${number(values.c)} >= ${limit} ${number(params[limit] ?? 1)}`;
  },
  independent: scored("hardly attends to the others committed"),
  branch: scored("its future looked most certain"),
  order: () => "its turn in reading order",
  unsure: (values, _, params) => against(values, params, ["theta_c", "threshold"], "<", (c, t) => c < t),
  unstable: (values, _, params) =>
    known(values.S) ? stability(values, "<", params) : "too uncertain to be read at other layers",
  upstream: (values, threshold) =>
    known(values.E) && known(threshold) ? `E ${number(values.E)} > beta ${number(threshold)}` : "too much entropy upstream",
  rank,
  conflict: () => "depends on a position committed in this step",
  turn: () => "an earlier position comes first",
};
