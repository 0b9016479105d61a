// One decode, from the lines of a trace (a file, or a stream that is still arriving): what the page reads.

export const FORMAT = "unmask.trace";
export const VERSION = 1;
const MOST = { canvas: 1 << 16, steps: 1 << 16 }; // longer is damage, not a decode
const PLAIN = new Set([
  "nfe", "positions", "tokens", "routes", "waits", "threshold", "projected", "branches", "seconds",
]); // prettier-ignore

export class TraceError extends Error {}

export class Run {
  constructor() {
    this.header = null;
    this.steps = [];
    this.end = null;
    this.error = null; // a sentence, where the decode failed
    this.stopped = false; // by whoever watched it
    this.unknownWords = []; // of the prompt
    this.warnings = []; // what the decode did that its answer may not survive: {code, sentence, fix}
    this.pieces = { __proto__: null }; // token -> text; a file may name any key
    this.lines = []; // of the steps, as they came: a saved run is byte for byte what was told
    this.headerLine = "";
    this.endLine = "";
  }

  /** A whole file. */
  static parse(text, name) {
    const run = new Run();
    text.split("\n").forEach((line, index) => {
      if (!line.trim()) return;
      try {
        run.add(line);
      } catch (error) {
        if (error instanceof TraceError) throw new TraceError(`${name}: ${error.message}`);
        throw new TraceError(`${name}, line ${index + 1}: not a valid trace line`);
      }
    });
    if (!run.header || !run.end) throw new TraceError(`${name} is not a complete unmask trace`);
    return run;
  }

  /** One line of a file or a stream. */
  add(line) {
    const data = JSON.parse(line);
    if (data.error) this.error = String(data.error.message);
    else if (data.unknown_words) this.unknownWords = data.unknown_words.map(String);
    else if (data.warnings) this.warnings = data.warnings.map(({ code, sentence, fix }) => ({ code: String(code), sentence: String(sentence), fix: String(fix) }));
    else if (data.pieces && !data.format) Object.assign(this.pieces, data.pieces);
    else if (data.step) this.addStep(data.step, line);
    else if (data.end) this.close(data.end, line);
    else this.open(data, line);
  }

  close(end, line) {
    [this.end, this.endLine] = [end, line];
    this.stopped = end.finish_reason === "stopped";
  }

  open(data, line) {
    if (data.format !== FORMAT) throw new TraceError("this is not an unmask trace");
    if (data.version !== VERSION) throw new TraceError(`trace version ${data.version}; this page reads ${VERSION}`);
    if (!(data.canvas_length >= 1 && data.canvas_length <= MOST.canvas)) throw new TraceError("no canvas length");
    const again = this.header !== null; // the final header of a stream: the same, with every piece
    [this.header, this.headerLine] = [data, line];
    Object.assign(this.pieces, data.pieces);
    if (again) return;
    this.stops = new Set(data.stop_ids);
    this.length = data.canvas_length;
    this.params = { decoder: data.decoder, ...data.params };
    this.committed = new Array(this.length).fill(null); // position -> {step, token, route, values}
    this.branches = 0; // lookahead rows so far
    this.totals = [{ nfe: 0, filled: 0, seconds: 0 }]; // after 0, 1, 2 ... steps
    this.firstEnd = this.length; // the first position that holds an end token
    for (const [position, token] of Object.entries(data.fixed ?? {})) {
      if (!(Number(position) < this.length)) throw new TraceError("a position off the canvas");
      this.committed[position] = { step: -1, token, route: "given", values: { c: 1 } };
      this.totals[0].filled += 1;
      if (this.ends(token)) this.firstEnd = Math.min(this.firstEnd, Number(position));
    }
  }

  addStep(raw, line) {
    if (!this.header || this.steps.length >= MOST.steps) throw new TraceError("a step without a header");
    const step = readStep(raw, this.length);
    const number = this.steps.length;
    let filled = 0;
    step.positions.forEach((position, i) => {
      if (!step.committed[i]) return;
      filled += 1;
      if (this.ends(step.tokens[i])) this.firstEnd = Math.min(this.firstEnd, position);
      this.committed[position] = {
        step: number, token: step.tokens[i], route: step.verdicts[i], values: valuesAt(step, i), threshold: step.threshold,
      }; // prettier-ignore
    });
    const before = this.totals[number];
    const spent = Object.values(raw.seconds).reduce((sum, value) => sum + Number(value), 0);
    this.totals.push({ nfe: raw.nfe, filled: before.filled + filled, seconds: before.seconds + spent });
    this.branches += Number(raw.branches ?? 0);
    this.steps.push(step);
    this.lines.push(line);
  }

  /** What it was asked for by, where that says more than the decoder's own name (rpd-paper is an rpd). */
  get name() {
    return String(this.header?.label || (this.header?.decoder ?? ""));
  }

  get live() {
    return !this.end && !this.error && !this.stopped;
  }

  piece(token) {
    return String(this.pieces[token] ?? `<${token}>`);
  }

  ends(token) {
    return this.stops.has(token);
  }

  /** What a position shows after `count` steps: its token with the step it came in, or null while masked. */
  at(position, count) {
    const token = this.committed[position];
    return token && token.step < count ? token : null;
  }

  /** What step `number` (from 0) said about a position, or null where it was not looked at. */
  seat(number, position) {
    const step = this.steps[number];
    const i = step ? step.index[position] : -1;
    if (i === undefined || i < 0) return null;
    return {
      step: number, token: step.tokens[i], verdict: step.verdicts[i], committed: step.committed[i],
      values: valuesAt(step, i), threshold: step.threshold,
    }; // prettier-ignore
  }

  /** Everything said about a position in the first `count` steps. */
  history(position, count) {
    const seats = [];
    for (let number = 0; number < Math.min(count, this.steps.length); number += 1) {
      const seat = this.seat(number, position);
      if (seat) seats.push(seat);
    }
    return seats;
  }

  /** How many steps had been made after `seconds`. */
  stepsBy(seconds) {
    let count = 0;
    while (count < this.steps.length && this.totals[count + 1].seconds <= seconds) count += 1;
    return count;
  }

  /** Tokens of the answer so far: those that stand before the first end of text. What throughput counts. */
  answerTokens(count) {
    let tokens = 0;
    for (let position = 0; position < this.length; position += 1) {
      const token = this.at(position, count);
      if (token && this.ends(token.token)) break;
      if (token) tokens += 1;
    }
    return tokens;
  }

  /** How much of the canvas there is to look at once it is full: the answer and its first end. */
  get body() {
    const rest = this.length - this.firstEnd - 1;
    return this.live || rest < 12 ? this.length : this.firstEnd + 1;
  }

  routes(count) {
    const counts = new Map();
    for (const token of this.committed) {
      if (token && token.step < count) counts.set(token.route, (counts.get(token.route) ?? 0) + 1);
    }
    return counts;
  }

  /** The file that `unmask replay` and this page open. */
  file() {
    const ends = this.end ? [this.headerLine, this.endLine] : this.halves();
    return [ends[0], ...this.lines, ends[1]].join("\n") + "\n";
  }

  /** Header and end of a run that was stopped: the server would have told them last. */
  halves() {
    const all = this.steps.length;
    const held = this.committed.filter((token) => token !== null);
    const answer = this.committed.slice(0, this.firstEnd).filter((token) => token !== null);
    const end = {
      text: answer.map(({ token }) => this.piece(token)).join(""), tokens: answer.length,
      non_eos: held.filter(({ token }) => !this.ends(token)).length, canvas: this.length, finish_reason: "stopped",
      nfe: this.totals[all].nfe, branches: this.branches, seconds: this.totals[all].seconds,
    }; // prettier-ignore
    return [{ ...this.header, pieces: this.pieces }, { end }].map((line) => JSON.stringify(line));
  }
}

function readStep(raw, length) {
  const count = raw.positions.length;
  const index = new Int32Array(length).fill(-1);
  raw.positions.forEach((position, i) => {
    if (!Number.isInteger(position) || position < 0 || position >= length) throw new TraceError("a position off the canvas");
    index[position] = i;
  });
  const verdicts = new Array(count).fill("");
  const committed = new Array(count).fill(false);
  for (const [group, taken] of [[raw.routes, true], [raw.waits, false]]) {
    for (const [name, members] of Object.entries(group)) {
      for (const i of members) [verdicts[i], committed[i]] = [name, taken];
    }
  }
  const columns = Object.entries(raw).filter(([name, column]) => !PLAIN.has(name) && Array.isArray(column));
  return { positions: raw.positions, tokens: raw.tokens, index, verdicts, committed, columns, threshold: figure(raw.threshold) };
}

function valuesAt(step, i) {
  const values = {};
  for (const [name, column] of step.columns) {
    const value = figure(column[i]);
    if (value !== null) values[name] = value;
  }
  return values;
}

/** JSON has no infinity: the trace spells it. */
const figure = (value) => (value === "inf" ? Infinity : value === "-inf" ? -Infinity : typeof value === "number" ? value : null);
