// The clock that both canvases follow: a position on a scale of steps, or of seconds of decoding.

export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];
const STEPS_PER_SECOND = 6; // at speed 1, where the scale is steps

export class Player {
  constructor(onChange) {
    this.onChange = onChange;
    this.runs = [];
    this.mode = "steps";
    this.position = 0;
    this.speed = 1;
    this.playing = false;
    this.last = 0;
    this.frame = (now) => this.advance(now);
  }

  load(runs) {
    this.runs = runs;
    this.position = 0;
  }

  /** How far the scale reaches by now; it grows while a decode is running. */
  get end() {
    if (this.mode === "steps") return Math.max(0, ...this.runs.map((run) => run.steps.length));
    return Math.max(0, ...this.runs.map((run) => run.totals?.at(-1).seconds ?? 0));
  }

  get live() {
    return this.runs.some((run) => run.live);
  }

  /** How many steps of a run are shown. */
  steps(run) {
    if (!run.header) return 0;
    return this.mode === "steps" ? Math.min(run.steps.length, Math.floor(this.position + 1e-9)) : run.stepsBy(this.position + 1e-9);
  }

  /** Nothing is fresh in a picture that stays: a run that is over, once the playback has passed it or rests. */
  still(run) {
    return !run.live && this.steps(run) === run.steps.length && (!this.playing || this.position >= run.steps.length + 1);
  }

  play() {
    if (!this.live && this.position >= this.end) this.position = 0;
    this.playing = true;
    this.last = performance.now();
    requestAnimationFrame(this.frame);
    this.onChange();
  }

  pause() {
    this.playing = false;
    this.onChange();
  }

  toggle() {
    this.playing ? this.pause() : this.play();
  }

  seek(position) {
    this.position = Math.max(0, Math.min(position, this.end));
    this.onChange();
  }

  /** One step on or back; on the scale of time, to the moment of the next step of any run. */
  nudge(direction) {
    this.playing = false;
    if (this.mode === "steps") return this.seek(Math.floor(this.position + 1e-9) + direction);
    const moments = this.runs.flatMap((run) => run.totals?.map((total) => total.seconds) ?? []).sort((a, b) => a - b);
    const next = direction > 0 ? moments.find((m) => m > this.position + 1e-6) : moments.findLast((m) => m < this.position - 1e-6);
    return this.seek(next ?? (direction > 0 ? this.end : 0));
  }

  /** The same moment on the other scale, by the run that is furthest. */
  measure(mode) {
    if (mode === this.mode) return;
    const run = this.runs.reduce((a, b) => ((b?.steps.length ?? 0) > (a?.steps.length ?? 0) ? b : a), this.runs[0]);
    const shown = run ? this.steps(run) : 0;
    this.mode = mode;
    this.seek(mode === "steps" ? shown : (run?.totals?.[shown].seconds ?? 0));
  }

  advance(now) {
    if (!this.playing) return;
    const rate = this.mode === "steps" ? STEPS_PER_SECOND * this.speed : this.speed;
    const before = this.position;
    const passed = Math.max(0, now - this.last); // a frame's time may lie before the click that asked for it
    this.position = Math.min(this.end, this.position + (passed / 1000) * rate);
    this.last = now;
    if (this.position >= this.end && !this.live) this.playing = false;
    const moved = Math.floor(before + 1e-9) !== Math.floor(this.position + 1e-9);
    if (moved || this.mode === "time" || !this.playing) this.onChange();
    if (this.playing) requestAnimationFrame(this.frame);
  }
}
