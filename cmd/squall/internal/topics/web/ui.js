"use strict";

// The page of "squall dds ui". It shows what the events of the server say; nothing of a sample is ever taken for markup.

const points = 120; // of a plot: a minute
const kept = 100; // samples of a topic
const by = (id) => document.getElementById(id);

let space = {name: "", topics: [], processes: [], endpoints: []};
let chosen = "";
let paused = false;
const rates = new Map(); // of topics: {now, rate: [], p50: [], p99: []}
const samples = new Map(); // of topics

// row fills a row of a table with texts. A column of numbers is right-aligned.
function row(cells, numbers) {
  const tr = document.createElement("tr");
  cells.forEach((cell, i) => {
    const td = document.createElement("td");
    if (cell instanceof Node) td.append(cell); else td.textContent = cell;
    if (numbers.includes(i)) td.className = "number";
    tr.append(td);
  });
  return tr;
}

const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
const few = new Intl.NumberFormat("en", {maximumSignificantDigits: 3});

function bytes(n) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (n < 1000 || unit === "GB") return `${few.format(n)} ${unit}`;
    n /= 1000;
  }
}

function latency(us) {
  if (!us) return "–";
  if (us < 1000) return `${few.format(us)} µs`;
  return us < 1e6 ? `${few.format(us / 1000)} ms` : `${few.format(us / 1e6)} s`;
}

// replace replaces the rows of a table, and keeps the focus on the button of the same name.
function replace(table, rows) {
  const focus = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.topic : undefined;
  const body = table.tBodies[0];
  body.replaceChildren(...rows);
  if (focus === undefined) return;
  for (const b of body.querySelectorAll("button")) if (b.dataset.topic === focus) b.focus();
}

function showSpace() {
  by("space").textContent = space.name;
  document.title = `Topics of ${space.name}`;
  by("processes").tBodies[0].replaceChildren(...space.processes.map((p) => row([p.name, p.address || "client", whole.format(p.writers), whole.format(p.readers)], [2, 3])));
  if (!chosen && space.topics.length) choose(space.topics[0].name);
  showTopics();
}

function showTopics() {
  replace(by("topics"), space.topics.map((t) => {
    const b = document.createElement("button");
    b.type = "button";
    b.textContent = t.name;
    b.dataset.topic = t.name;
    b.setAttribute("aria-pressed", String(t.name === chosen));
    b.addEventListener("click", () => choose(t.name));
    const apart = document.createElement("span");
    apart.textContent = whole.format(t.apart);
    if (t.apart) apart.className = "apart";
    const r = rates.get(t.name);
    const now = t.shown && r ? [whole.format(r.now.samples), bytes(r.now.bytes), latency(r.now.p50)] : [t.fault, "", ""];
    const tr = row([b, t.type, t.keyed ? "yes" : "no", t.durability, t.ownership, whole.format(t.writers), whole.format(t.readers), apart, ...now], [5, 6, 7, 8, 9, 10]);
    if (t.name === chosen) tr.className = "chosen";
    return tr;
  }));
}

function choose(name) {
  chosen = name;
  by("detail").hidden = false;
  by("chosen").textContent = name;
  showTopics();
  showSamples();
  showPlots();
  explain();
}

// explain shows which writers and readers of the topic match, and why others do not.
async function explain() {
  const topic = chosen;
  let pairs;
  try {
    const answer = await fetch(`explain?topic=${encodeURIComponent(topic)}`);
    if (!answer.ok) return; // an endpoint was closed meanwhile: the next event of the space comes
    pairs = await answer.json();
  } catch {
    return; // the status says that the connection is lost
  }
  if (topic !== chosen) return;
  const page = new Set(space.endpoints.filter((e) => e.page).map((e) => e.id));
  pairs = pairs.filter((p) => !page.has(p.reader));
  by("no-pairs").hidden = pairs.length > 0;
  by("matches").replaceChildren(...pairs.map((p) => {
    const li = document.createElement("li");
    const verdict = document.createElement("strong");
    verdict.textContent = p.match ? "match" : "do not match";
    verdict.className = p.match ? "match" : "apart";
    li.append(`writer ${p.writer} and reader ${p.reader} `, verdict);
    if (!p.match) {
      const why = document.createElement("ul");
      for (const v of p.verdicts.filter((v) => !v.compatible)) {
        const reason = document.createElement("li");
        reason.textContent = `${v.policy}: offered ${v.offered}, requested ${v.requested}; ${v.rule}`;
        why.append(reason);
      }
      li.append(why);
    }
    return li;
  }));
}

function showSamples() {
  const all = samples.get(chosen) || [];
  by("samples").tBodies[0].replaceChildren(...all.map((s) =>
    row([whole.format(s.position), new Date(s.time).toISOString().slice(11, 23), s.writer, s.key, s.text], [0])));
}

// plot draws lines of one scale, which begins at 0.
function plot(svg, lines, label) {
  const top = Math.max(1e-9, ...lines.flatMap((l) => l.values)) * 1.1;
  svg.replaceChildren(...lines.map((l) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    line.setAttribute("class", l.name);
    line.setAttribute("points", l.values.map((v, i) => `${(600 * (points - l.values.length + i)) / (points - 1)},${158 - (156 * v) / top}`).join(" "));
    return line;
  }));
  svg.setAttribute("aria-label", label);
}

function showPlots() {
  const r = rates.get(chosen) || {now: {samples: 0, p50: 0, p99: 0}, rate: [], p50: [], p99: []};
  const top = whole.format(Math.max(0, ...r.rate));
  plot(by("rate"), [{name: "one", values: r.rate}], `samples each second in the last minute: now ${whole.format(r.now.samples)}, at most ${top}`);
  plot(by("latency"), [{name: "one", values: r.p50}, {name: "two", values: r.p99}], `latency in the last minute: now p50 ${latency(r.now.p50)}, p99 ${latency(r.now.p99)}`);
  by("rate-now").textContent = `${whole.format(r.now.samples)} (at most ${top})`;
  by("latency-now").textContent = r.now.p50 ? `${latency(r.now.p50)}, ${latency(r.now.p99)}` : "–";
}

function push(list, value) {
  list.push(value);
  if (list.length > points) list.shift();
}

const events = new EventSource("events");
events.addEventListener("open", () => {
  by("status").textContent = "live";
  by("status").className = "";
});
events.addEventListener("error", () => {
  by("status").textContent = "the connection is lost; what is shown is old";
  by("status").className = "bad";
});
events.addEventListener("space", (e) => {
  space = JSON.parse(e.data);
  showSpace();
  if (chosen) explain();
});
events.addEventListener("rates", (e) => {
  const event = JSON.parse(e.data);
  for (const t of event.topics) {
    let r = rates.get(t.topic);
    if (!r) rates.set(t.topic, (r = {rate: [], p50: [], p99: []}));
    r.now = t;
    push(r.rate, t.samples);
    push(r.p50, t.p50);
    push(r.p99, t.p99);
  }
  if (!paused) {
    for (const s of event.samples) {
      if (!samples.has(s.topic)) samples.set(s.topic, []);
      samples.get(s.topic).unshift(s);
      samples.get(s.topic).length = Math.min(samples.get(s.topic).length, kept);
    }
    if (event.samples.some((s) => s.topic === chosen)) showSamples();
  }
  showTopics();
  if (chosen) showPlots();
});
by("pause").addEventListener("click", () => {
  paused = !paused;
  by("pause").setAttribute("aria-pressed", String(paused));
  by("pause").textContent = paused ? "Go on" : "Pause";
});
