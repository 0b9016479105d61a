// The server: what it offers, and decodes told line by line.

import { Run } from "./run.js";

let key = null; // only where the server asks for one; kept in memory, not in the browser's storage

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function useKey(value) {
  key = value;
}

async function request(path, options = {}) {
  const headers = { ...(options.body ? { "Content-Type": "application/json" } : {}), ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the server cannot be reached");
  }
  if (answer.ok) return answer;
  let message = `the server answered ${answer.status}`;
  try {
    message = (await answer.json()).error.message;
  } catch {
    // not one of our errors: the status has to do
  }
  throw new Refused(answer.status, message);
}

export async function offer() {
  const told = await (await request("/api/page")).json();
  for (const words of [told.routes, told.reasons]) Object.setPrototypeOf(words, null); // so that "constructor" is none
  return told;
}

/** Start a decode; resolves with its Run once there is a header, and calls `onNews` as it grows. */
export async function watch(body, signal, onNews) {
  const answer = await request("/api/watch", { method: "POST", body: JSON.stringify(body), signal });
  const run = new Run();
  follow(answer.body, run, signal, onNews);
  return run;
}

async function follow(body, run, signal, onNews) {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const lines = rest.split("\n");
      rest = lines.pop();
      lines.filter(Boolean).forEach((line) => run.add(line));
      if (done) break;
      onNews(run);
    }
    if (run.live) run.error = "the connection ended before the decode did";
  } catch {
    if (signal.aborted) run.stopped = run.live;
    else run.error ??= "the connection was lost";
  }
  onNews(run);
}
