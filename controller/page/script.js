// Asks the sidecar for its status every two seconds and draws it; docs/status.md tells the fields.
// Names are an operator's, so they only ever become text, never markup.
"use strict";

const EVERY = 2000; // milliseconds between two questions
const LONGEST = 60000; // and at most, while nobody answers
const PATIENCE = 5000; // for an answer
const SAMPLE = 10; // seconds of the engine's clock between two points of a curve
const SAMPLES = 360; // points remembered
const PARTS = 11; // parts of rules shown, those with most evidence
const FIRST_AGE = 0.1, STEP = 1.25, AGES = 64; // the grid of ages, as in policies/ages.py
const SILENCE =
  "The sidecar does not answer; what is below was so when it last did. " +
  "If it was stopped, start it with `wactl run`.";

const pasts = new Map(); // by rank: { pid, samples }
let delay = EVERY;

// Numbers in few characters.

const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)} %`);
const signed = (number) => (number < 0 ? "−" : "+") + Math.abs(number).toFixed(1);
const points = (ahead, noise) => `${signed(100 * ahead)} ± ${(100 * noise).toFixed(1)} points`;

function seconds(value) {
  if (value === null) return "–";
  if (value < 120) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  return value < 7200 ? `${(value / 60).toFixed(0)} min` : `${(value / 3600).toFixed(0)} h`;
}

function count(number) {
  const size = Math.abs(number);
  if (size >= 1e9) return `${(number / 1e9).toFixed(1)} G`;
  if (size >= 1e6) return `${(number / 1e6).toFixed(1)} M`;
  return size >= 1e4 ? `${(number / 1e3).toFixed(1)} k` : number.toFixed(0);
}

// Elements.

const say = (within, selector, text) => (within.querySelector(selector).textContent = text);
const made = (name) => document.getElementById(name).content.firstElementChild.cloneNode(true);

function add(svg, name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  svg.append(element);
}

// An empty picture as large as it is on the screen, so that its letters stay readable on a phone.
function picture(svg, label) {
  const { width, height } = svg.getBoundingClientRect();
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-label", label);
  svg.replaceChildren();
  return { width, height };
}

function line(svg, kind, places) {
  if (places.length > 1) {
    const path = places.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L");
    add(svg, "path", { class: kind, d: `M${path}` });
  }
}

// Pictures.

function drawTime(svg, samples) {
  const last = samples[samples.length - 1];
  const label = last
    ? `Hit ratio over time, at last: engine ${percent(last.engine)}, LRU ${percent(last.lru)}`
    : "Hit ratio over time: nothing yet";
  const { width, height } = picture(svg, label);
  if (samples.length < 2) {
    add(svg, "text", { x: 4, y: 20 }, "There will be a curve in half a minute of traffic.");
    return;
  }
  const all = samples.flatMap((sample) => [sample.engine, sample.lru, sample.chosen]);
  const range = Math.max(...all) - Math.min(...all);
  const step = [0.01, 0.02, 0.05, 0.1, 0.2].find((size) => range <= 4 * size) ?? 0.25;
  const low = step * Math.floor(Math.min(...all) / step);
  const high = step * Math.max(Math.ceil(Math.max(...all) / step), Math.round(low / step) + 1);
  const start = samples[0].time, span = last.time - start;
  const left = 42, right = width - 6, top = 8, bottom = height - 22;
  const x = (time) => left + ((time - start) / span) * (right - left);
  const y = (ratio) => bottom - ((ratio - low) / (high - low)) * (bottom - top);
  for (let ratio = low; ratio < high + step / 2; ratio += step) {
    add(svg, "line", { class: "grid", x1: left, x2: right, y1: y(ratio), y2: y(ratio) });
    const place = { x: left - 6, y: y(ratio) + 4, "text-anchor": "end" };
    add(svg, "text", place, `${(100 * ratio).toFixed(0)} %`);
  }
  const every = 60 * ([1, 2, 5, 10, 20, 60].find((minutes) => span <= 360 * minutes) ?? 180);
  for (let ago = every; ago < 0.95 * span; ago += every) {
    const place = { x: x(last.time - ago), y: height - 5, "text-anchor": "middle" };
    add(svg, "text", place, `${seconds(ago)} ago`);
  }
  add(svg, "text", { x: right, y: height - 5, "text-anchor": "end" }, "now");
  for (const of of ["lru", "chosen", "engine"]) {
    line(svg, of, samples.map((sample) => [x(sample.time), y(sample[of])]));
  }
}

function drawReuse(svg, category) {
  const { reuse, expected, name } = category;
  const label = category.p === null
    ? `${name}: no law yet`
    : `${name}: ${percent(category.p)} of the blocks are used again, ` +
      `after ${seconds(category.mean_reuse_seconds)} in the mean`;
  const { width, height } = picture(svg, label);
  const bottom = height - 18, top = 6, bin = width / reuse.length;
  const x = (age) => ((Math.log(age / FIRST_AGE) / Math.log(STEP) + 0.5) / AGES) * width;
  add(svg, "line", { class: "grid", x1: 0, x2: width, y1: bottom, y2: bottom });
  for (const [age, text] of [[1, "1 s"], [10, "10 s"], [60, "1 min"], [600, "10 min"], [3600, "1 h"], [36000, "10 h"]]) {
    add(svg, "line", { class: "grid", x1: x(age), x2: x(age), y1: top, y2: bottom });
    add(svg, "text", { x: x(age), y: height - 4, "text-anchor": "middle" }, text);
  }
  const most = Math.max(...reuse, ...expected);
  if (!(most > 0)) return;
  const tall = (number) => (number / most) * (bottom - top);
  reuse.forEach((number, at) => {
    const size = { x: at * bin + 1, y: bottom - tall(number), width: bin - 2, height: tall(number) };
    add(svg, "rect", size);
  });
  line(svg, "law", expected.map((number, at) => [(at + 0.5) * bin, bottom - tall(number)]));
}

function drawPast(svg, name, samples) {
  const known = samples
    .map((sample) => [sample.time, sample.parameters.find((one) => one.name === name)])
    .filter(([, one]) => one !== undefined);
  const { width, height } = picture(svg, `${name}: probability of reuse over time`);
  if (known.length < 2) return;
  const start = samples[0].time, span = samples[samples.length - 1].time - start || 1;
  const right = width - 70;
  const x = (time) => ((time - start) / span) * right;
  const y = (p) => height - 4 - p * (height - 8);
  add(svg, "line", { class: "grid", x1: 0, x2: right, y1: y(0), y2: y(0) });
  line(svg, "p", known.map(([time, one]) => [x(time), y(one.p)]));
  const all = known.map(([, one]) => one.p);
  const ends = new Set([Math.min(...all), Math.max(...all)].map((p) => (100 * p).toFixed(0)));
  add(svg, "text", { x: right + 6, y: y(0.5) + 4 }, `${[...ends].join("–")} %`);
}

// The parts of the page.

function showGate(section, engine, mode) {
  const { gate } = engine;
  const by = (name) => gate.contestants.find((one) => one.name === name);
  const own = by("engine"), lru = by("lru"), chosen = by(gate.running);
  const enforced = mode === "enforce";
  say(section, ".hits", percent(own.hit_ratio));
  say(section, "p.lru", percent(lru.hit_ratio));
  const seen = own.hit_ratio !== null;
  say(section, ".ahead", seen ? signed(100 * own.ahead_of_lru) : "–");
  say(section, ".noise", seen ? `points, ± ${(100 * own.noise).toFixed(1)}` : "no requests yet");
  say(section, ".saving", enforced ? "Prefill saved" : "Prefill enforce would save");
  say(section, ".tokens", count(gate.saved_tokens));
  if (mode === "observe") {
    say(section, ".gate", "In mode observe nothing is learned, and the engine keeps its own order.");
    say(section, ".reason", "");
    return;
  }
  const ahead = points(chosen.ahead_of_lru, chosen.noise);
  const brings = gate.running === "lru" ? "" : `: ${ahead} against LRU, in shadow`;
  const verb = enforced ? "Runs" : "Mode enforce would run";
  say(section, ".gate", `${verb} ${gate.running}${brings}`);
  say(section, ".reason", `${gate.phase} for ${seconds(gate.since_seconds)}: ${gate.reason}`);
}

function showState(section, engine) {
  const state = section.querySelector(".state");
  const age = engine.version_age_seconds;
  say(section, "h2", `Engine ${engine.rank}`);
  state.classList.toggle("bad", !engine.alive || engine.errors > 0);
  state.textContent = engine.alive
    ? `${engine.order}: ${engine.reason}${age === null ? "" : `, ${seconds(age)} old`} · ` +
      `vLLM ${engine.vllm}, pid ${engine.pid} · ${count(engine.requests)} requests · ` +
      `${engine.cached_blocks} of ${engine.blocks} blocks cached, ${engine.block_tokens} tokens each`
    : `silent for ${seconds(engine.silent_seconds)}: the engine has ended, or hangs`;
}

function showCategories(section, engine, samples) {
  const parts = engine.categories.filter((one) => !one.rule && one.evidence > 0);
  const best = new Set(parts.sort((a, b) => b.evidence - a.evidence).slice(0, PARTS));
  const shown = engine.categories.filter((one) => one.rule || best.has(one));
  const list = section.querySelector(".categories");
  while (list.children.length > shown.length) list.lastElementChild.remove();
  while (list.children.length < shown.length) list.append(made("category"));
  shown.forEach((one, at) => {
    const card = list.children[at];
    card.classList.toggle("part", !one.rule);
    const error = one.error === null ? "" : ` ± ${(100 * one.error).toFixed(0)} %`;
    say(card, "h4", one.name);
    say(card, "dd.p", percent(one.p));
    say(card, ".mean", seconds(one.mean_reuse_seconds));
    say(card, ".lifespan", seconds(one.lifespan_seconds));
    say(card, ".evidence", `${count(one.evidence)}${error}`);
    say(card, ".ratio", percent(one.hit_ratio));
    say(card, ".cached", percent(one.cached_share));
    drawReuse(card.querySelector(".reuse"), one);
    drawPast(card.querySelector(".past"), one.name, samples);
  });
  const left = section.querySelector(".left"), more = engine.categories.length - shown.length;
  left.hidden = more === 0;
  left.textContent = `${more} more categories are in /status.`;
}

function showChanges(section, engine) {
  const rows = engine.changes.map((change) => {
    const row = document.createElement("li");
    for (const [kind, text] of [["time", `${seconds(change.seconds_ago)} ago`], ["b", change.kind], ["span", change.text]]) {
      const part = document.createElement(kind);
      part.textContent = text;
      row.append(part);
    }
    return row;
  });
  section.querySelector(".changes").replaceChildren(...rows);
}

// The sidecar's samples of the engine, and since then one of our own each ten seconds.
async function samplesOf(engine) {
  let past = pasts.get(engine.rank);
  if (past === undefined || past.pid !== engine.pid) {
    const all = await ask("history");
    if (all === null) return [];
    const found = all.find((one) => one.rank === engine.rank && one.pid === engine.pid);
    past = { pid: engine.pid, samples: found === undefined ? [] : found.samples };
    pasts.set(engine.rank, past);
  }
  const { samples } = past, last = samples[samples.length - 1];
  const ratio = (name) => engine.gate.contestants.find((one) => one.name === name).hit_ratio;
  if (ratio("engine") !== null && (last === undefined || engine.time - last.time >= SAMPLE)) {
    samples.push({
      time: engine.time,
      engine: ratio("engine"),
      lru: ratio("lru"),
      chosen: ratio(engine.gate.running),
      parameters: engine.categories.filter((one) => one.p !== null),
    });
    if (samples.length > SAMPLES) samples.shift();
  }
  return samples;
}

async function show(status) {
  const main = document.getElementById("engines");
  const problems = status.silent.map((where) => `Nothing was heard from ${where}.`);
  if (status.rules_problem) {
    problems.push(`The rules as last edited are not in use: ${status.rules_problem}`);
  }
  if (status.state_problem) {
    problems.push(`Nothing is kept of what is learned: ${status.state_problem}`);
  }
  if (status.engines.length + status.silent.length === 0) {
    problems.push(`No engine is in ${status.run_dir}; start one with WACTL=1.`);
  }
  say(document, "#about", `${status.wactl} · mode ${status.mode} · pid ${status.pid}`);
  complain(problems.join(" "));
  while (main.children.length > status.engines.length) main.lastElementChild.remove();
  while (main.children.length < status.engines.length) main.append(made("engine"));
  for (const [at, engine] of status.engines.entries()) {
    const section = main.children[at];
    const samples = await samplesOf(engine);
    showState(section, engine);
    showGate(section, engine, status.mode);
    drawTime(section.querySelector(".time"), samples);
    showCategories(section, engine, samples);
    showChanges(section, engine);
  }
}

// Asking.

function complain(text) {
  const place = document.getElementById("problem");
  place.hidden = text === "";
  if (place.textContent !== text) place.textContent = text;
}

// The answer, or null if there is none.
async function ask(path) {
  try {
    const answer = await fetch(path, { signal: AbortSignal.timeout(PATIENCE) });
    return await answer.json();
  } catch {
    return null;
  }
}

async function round() {
  const status = await ask("status");
  delay = status === null ? Math.min(2 * delay, LONGEST) : EVERY;
  try {
    if (status !== null) await show(status);
    else complain(SILENCE);
  } finally {
    setTimeout(round, delay);
  }
}

round();
