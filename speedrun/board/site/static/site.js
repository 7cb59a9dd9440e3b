"use strict";
/* Places what was worked out beforehand: nothing is computed here but what is sorted, filtered and drawn.
   Text from records only ever becomes text: no HTML is built from strings. */

const root = document.body.dataset.root;
const $ = (id) => document.getElementById(id);
const received = {};
const waiting = {};
window.speedrunData = (key, content) => { received[key] = content; };

function loadScript(path) {
  waiting[path] ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = root + path;
    script.onload = done;
    script.onerror = () => failed(new Error("cannot load " + path));
    document.head.append(script);
  });
  return waiting[path];
}

async function load(key, path) {
  if (!(key in received)) await loadScript(path);
  return received[key];
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== "" && value != null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/* The state lives in the address, so that every view can be linked to. */
const state = () => new URLSearchParams(location.hash.slice(1));
function setState(changes) {
  const next = state();
  for (const [name, value] of Object.entries(changes)) value == null || value === "" ? next.delete(name) : next.set(name, value);
  history.replaceState(null, "", "#" + next);
}
const press = (group, of, value) => group.querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset[of] === value)));

/* Light and dark */
const dark = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
try { chosen = localStorage.getItem("theme"); } catch { /* not kept for files in some browsers */ }
function applyTheme() { document.documentElement.dataset.theme = chosen ?? (dark.matches ? "dark" : "light"); }
applyTheme();
dark.addEventListener("change", () => { applyTheme(); redraw(); });
$("theme").addEventListener("click", () => {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("theme", chosen); } catch { /* see above */ }
  applyTheme();
  redraw();
});

/* Charts */
const colours = () => document.documentElement.dataset.theme === "dark"
  ? ["#9aa7b4", "#5cc8c4", "#f2a65a", "#8fb4ff", "#f28ba8", "#b5d96c", "#c9a6ff", "#e8d36b", "#6fd3f2", "#ff9c98", "#8fe0b0", "#d8b899"]
  : ["#5c6773", "#0a6c74", "#c4620a", "#2f5fc4", "#b3285a", "#5b7d10", "#7544b8", "#8f7400", "#137ca5", "#a3292f", "#1c8a57", "#86583a"];
const symbols = ["circle", "diamond", "square", "triangle-up", "star", "hexagon", "pentagon", "cross", "triangle-down", "x", "bowtie", "star-diamond"];
const translucent = (hex) => hex + "26";
let redraw = () => {};

async function draw(traces, layout, tall = false) {
  const box = $("chart");
  box.classList.toggle("tall", tall);
  try { await loadScript("plotly.min.js"); } catch { box.textContent = "The plotting library is missing beside this page."; return; }
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim(), line = style.getPropertyValue("--line").trim(), card = style.getPropertyValue("--card").trim();
  const narrow = box.clientWidth < 620;
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true, exponentformat: "power", title: { standoff: 8 } };
  const full = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: narrow ? 11 : 13, family: style.fontFamily },
    margin: { l: 8, r: 12, t: 12, b: 8 }, hovermode: "closest", hoverlabel: { bgcolor: card, bordercolor: line, font: { color: ink }, namelength: 0 },
    legend: narrow ? { orientation: "h", y: -0.28, font: { size: 10 } } : { y: 1, yanchor: "top", tracegroupgap: 0 }, ...layout,
  };
  for (const name of Object.keys(full)) if (/^[xy]axis/.test(name)) full[name] = { ...axis, ...full[name] };
  await window.Plotly.react(box, traces, full, { responsive: true, displaylogo: false, displayModeBar: false });
}

const flopsAxis = (title, ticks = []) => ({ type: "log", title: { text: title }, ...(ticks.length ? { tickvals: ticks.map(([at]) => at), ticktext: ticks.map(([, label]) => label) } : { dtick: 1 }) });
const drawings = {
  pareto(charts, cost) {
    const traces = charts.pareto.map((group, at) => ({
      name: group.name, x: group.x[cost], y: group.y, text: group.text, mode: "markers", hovertemplate: "%{text}: %{y:.4f}",
      type: group.y.length > 500 ? "scattergl" : "scatter",
      error_y: { type: "data", array: group.err, thickness: 1.5, width: 4, color: colours()[at % 12] },
      marker: { size: 10, color: colours()[at % 12], symbol: symbols[at % 12], opacity: group.name === "others" ? .35 : .95 },
    }));
    const front = charts.fronts[cost];
    traces.unshift({ name: "Pareto front", x: front.x, y: front.y, mode: "lines", line: { shape: "hv", width: 1.5, dash: "dot", color: colours()[0] }, hoverinfo: "skip" });
    draw(traces, { xaxis: flopsAxis(cost + " FLOPs", cost === "model" ? charts.ticks : []), yaxis: { title: { text: "bits per byte" } } });
    const known = charts.pareto.some((group) => group.x[cost].some((x) => x != null));
    return known ? "Each point is a method at a rung. Lower and further left is better; the dotted line joins those that none beats in both."
      : `No ${cost} FLOPs are on record here.`;
  },
  fits(charts) {
    const traces = [];
    charts.fits.forEach((fit, at) => {
      const colour = colours()[at % 12], group = { legendgroup: String(at) };
      if (fit.low.length) traces.push(
        { ...group, x: [...fit.x, ...[...fit.x].reverse()], y: [...fit.high, ...[...fit.low].reverse()], fill: "toself", fillcolor: translucent(colour), line: { width: 0 }, mode: "lines", hoverinfo: "skip", showlegend: false });
      traces.push(
        { ...group, name: fit.name, x: fit.x, y: fit.y, mode: "lines", line: { color: colour, width: 2 }, text: fit.x.map(() => fit.name + ": " + fit.law), hoverinfo: "text" },
        { ...group, x: fit.px, y: fit.py, mode: "markers", marker: { color: colour, size: 9, symbol: symbols[at % 12] }, showlegend: false, text: fit.py.map((y) => `${fit.name}: ${y}`), hoverinfo: "text" },
        { ...group, x: fit.px, y: fit.residuals, mode: "markers+lines", line: { color: translucent(colour) }, marker: { color: colour, size: 7, symbol: symbols[at % 12] }, showlegend: false, yaxis: "y2", text: fit.residuals.map((r) => `${fit.name}: ${r}`), hoverinfo: "text" });
    });
    draw(traces, { xaxis: { ...flopsAxis("model FLOPs", charts.ticks), anchor: "y2" }, yaxis: { title: { text: "bits per byte" }, domain: [.3, 1] }, yaxis2: { title: { text: "residual, 10⁻³" }, domain: [0, .22] } }, true);
    return charts.fits.length ? "L(C) = c + A C^-α by least squares; bands are the fits that leave one rung out. Below, measured minus fitted."
      : "A curve needs three rungs of one method.";
  },
  speedups(charts) {
    const drawn = charts.speedups.filter((each) => each.y.length);
    const traces = drawn.map((each, at) => ({
      name: each.name, x: each.x, y: each.y, text: each.text, hoverinfo: "text", mode: "lines+markers",
      line: { color: colours()[(at + 1) % 12], width: 1.5 }, marker: { size: 9, symbol: symbols[(at + 1) % 12] },
      error_y: { type: "data", symmetric: false, array: each.plus, arrayminus: each.minus, thickness: 1.5, width: 5 },
    }));
    draw(traces, { xaxis: flopsAxis("model FLOPs", charts.ticks), showlegend: true, yaxis: { type: "log", nticks: 8, title: { text: "speedup over " + charts.baseline } },
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: 1, y1: 1, line: { dash: "dot", color: colours()[0], width: 1.5 } }] });
    return drawn.length ? `By how many times less compute than ${charts.baseline}, with intervals at 90 %. The dotted line is ${charts.baseline} itself.`
      : "No speedups: the baseline needs three rungs.";
  },
};

/* Cells: "text", [text, sort value, small text], or an object with links, labels or an interval to draw. */
function parts(cell) {
  if (typeof cell === "string") return { t: cell, v: cell };
  if (Array.isArray(cell)) return { t: cell[0], v: cell[1], sub: cell[2] };
  return { v: cell.t === "–" ? null : cell.t, ...cell };
}
const valueOf = (cell) => parts(cell).v;
const searchable = (row) => row.map(parts).map((cell) => `${cell.t} ${cell.sub ?? ""}`).join(" ").toLowerCase();

function whisker([low, value, high, one]) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const add = (tag, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, at] of Object.entries(attributes)) made.setAttribute(name, at);
    svg.append(made);
  };
  svg.setAttribute("class", "whisker");
  svg.setAttribute("aria-hidden", "true");
  const x = (at) => (4 + 92 * at) + "%";
  add("line", { class: "one", x1: x(one), x2: x(one), y1: 0, y2: 14 });
  add("line", { class: "span", x1: x(low), x2: x(high), y1: 7, y2: 7 });
  add("circle", { cx: x(value), cy: 7, r: 4 });
  return svg;
}

function cellElement(packed, column, at, labels) {
  const cell = parts(packed), text = cell.t, small = cell.sub;
  const td = element("td", { "data-label": column[0] });
  if (column[0] === "candidate" || column[0] === "run") td.classList.add("name");
  if (at === 0) td.classList.add("first");
  if (text === "" || text === "–") td.classList.add("empty");
  const box = element("div");
  if (cell.chips) {
    box.append(element("div", { class: "chips" }, ...cell.chips.map((label) => {
      const [tone, meaning] = labels[label] ?? ["plain", ""];
      return element("span", { class: "chip " + tone, title: [meaning, cell.title].filter(Boolean).join(": ") }, label.replaceAll("_", " "));
    })));
  } else {
    const main = cell.href ? element("a", { class: "main", href: cell.href, title: cell.title, rel: "noopener noreferrer" }, text) : element("span", { class: "main", title: cell.title }, text);
    box.append(main);
    if (small) box.append(element("span", { class: "sub" }, small));
    if (cell.bar) box.append(whisker(cell.bar));
    if (cell.seeds) box.append(element("span", { class: "sub seeds" }, ...cell.seeds.flatMap((seed, n) => [n ? " " : "", element("a", { href: `${cell.at}${seed}.html`, title: "seed " + seed }, String(seed))])));
  }
  td.append(box);
  return td;
}

const PAGE = 100;
let shownRows = PAGE;

/* The first rows stand in the table's own file; the rest is fetched when it is needed. */
async function allRows(board, rung, table) {
  if (table.rows.length < table.total) {
    const rest = await load(`${board.key}/${rung}-rest`, `data/${board.key}/${rung}-rest.js`);
    if (table.rows.length < table.total) table.rows = table.rows.concat(rest.rows);
  }
  return table.rows;
}

/* On a phone there are no headings to press. */
function showSort(table, by, down) {
  const options = table.columns.flatMap(([name]) => [["up", "↑"], ["down", "↓"]].map(([dir, arrow]) => element("option", { value: `${dir} ${name}` }, `${name} ${arrow}`)));
  $("sort").replaceChildren(element("option", { value: "ranked" }, "as ranked"), ...options);
  $("sort").value = by ? `${down ? "down" : "up"} ${by}` : "ranked";
}

async function showTable(board) {
  const at = state(), rung = board.tables.some(([key]) => key === at.get("rung")) ? at.get("rung") : board.first;
  press($("rungs"), "rung", rung);
  const table = await load(`${board.key}/${rung}`, `data/${board.key}/${rung}.js`);
  const names = table.columns.map(([name]) => name);
  const sort = names.indexOf(at.get("sort") ?? ""), down = at.get("dir") === "down";
  const head = element("tr", {}, ...table.columns.map(([name, help], n) => {
    const th = element("th", { scope: "col", title: help, "aria-sort": n === sort ? (down ? "descending" : "ascending") : null }, element("button", { type: "button" }, name));
    th.firstChild.addEventListener("click", () => {
      const again = names.indexOf(state().get("sort") ?? "") === n;
      setState({ sort: name, dir: again && state().get("dir") !== "down" ? "down" : "up" });
      showTable(board).then(() => $("table").querySelectorAll("th button")[n].focus());
    });
    return th;
  }));
  showSort(table, names[sort] ?? "", down);
  const wanted = (at.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const all = sort >= 0 || wanted.length || shownRows > table.rows.length ? await allRows(board, rung, table) : table.rows;
  let rows = all.filter((row) => { const text = wanted.length ? searchable(row) : ""; return wanted.every((word) => text.includes(word)); });
  if (sort >= 0) {
    rows = [...rows].sort((a, b) => {
      const [x, y] = [valueOf(a[sort]), valueOf(b[sort])];
      if (x == null || x === "" || y == null || y === "") return (x == null || x === "") - (y == null || y === "");
      return (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y))) * (down ? -1 : 1);
    });
  }
  $("table").tHead.replaceChildren(head);
  $("table").tBodies[0].replaceChildren(...rows.slice(0, shownRows).map((row) => element("tr", {}, ...row.map((cell, n) => cellElement(cell, table.columns[n], n, board.labels)))));
  const found = wanted.length ? rows.length : table.total;
  $("more").hidden = found <= shownRows;
  $("count").textContent = found === table.total ? `${found} ${found === 1 ? "row" : "rows"}` : `${found} of ${table.total} rows`;
  $("table-notes").replaceChildren(...table.notes.map((note) => element("li", {}, note)));
}

function showChart(board) {
  const at = state(), chart = at.get("chart") in drawings ? at.get("chart") : "pareto";
  const cost = board.charts.costs.includes(at.get("flops")) ? at.get("flops") : board.charts.costs[0];
  press($("chart-switch"), "chart", chart);
  press($("cost-switch"), "cost", cost);
  $("cost-switch").hidden = chart !== "pareto";
  $("cost-switch").querySelectorAll("button").forEach((button) => { button.hidden = !board.charts.costs.includes(button.dataset.cost); });
  $("chart-caption").textContent = drawings[chart](board.charts, cost);
}

function showTracks(board) {
  $("tracks-section").hidden = !board.tracks.length;
  const list = (title, hits) => [element("h4", {}, title), hits.length ? element("ol", {}, ...hits.map(([name, cost]) => element("li", {}, name + " ", element("span", {}, cost)))) : element("p", { class: "count" }, "nobody yet")];
  $("tracks").replaceChildren(...board.tracks.map((track) => element("article", { class: "track" },
    element("h3", {}, track.name + " ", element("small", {}, track.target + " bits per byte")), ...list("least compute", track.flops), ...list("least time", track.time))));
}

function showCards(board) {
  $("cards").replaceChildren(...board.cards.map((card) => element("article", { class: "card" },
    element("h3", {}, card.name), element("div", { class: "big" }, card.value, element("small", {}, card.interval)),
    element("p", {}, [card.at, card.realised].filter(Boolean).join(" · ")), element("p", {}, card.word))));
}

async function showIndex() {
  const tabs = document.querySelector(".tabs"), keys = [...tabs.querySelectorAll("button")].map((tab) => tab.dataset.board);
  const key = keys.includes(state().get("board")) ? state().get("board") : keys[0];
  press(tabs, "board", key);
  const board = await load(key, `data/${key}.js`);
  $("over").textContent = board.over;
  $("headline").textContent = board.headline;
  $("lead").textContent = board.lead;
  $("notes").replaceChildren(...board.notes.map((note) => element("li", {}, note)));
  $("filter").value = state().get("q") ?? "";
  showCards(board);
  showTracks(board);
  $("rungs").replaceChildren(...board.tables.map(([rung, title]) => {
    const button = element("button", { type: "button", "data-rung": rung }, title);
    button.addEventListener("click", () => { shownRows = PAGE; setState({ rung, sort: null, dir: null }); showTable(board); });
    return button;
  }));
  redraw = () => showChart(board);
  await showTable(board);
  showChart(board);
  document.body.dataset.ready = key;
}

function startIndex() {
  if (!document.querySelector(".tabs button")) { document.body.dataset.ready = "empty"; return; }
  document.querySelectorAll(".tabs button").forEach((tab) => tab.addEventListener("click", () => {
    shownRows = PAGE;
    setState({ board: tab.dataset.board, rung: null, sort: null, dir: null, q: null, flops: null });
    showIndex();
  }));
  const current = () => received[[...document.querySelectorAll(".tabs button")].find((tab) => tab.getAttribute("aria-pressed") === "true").dataset.board];
  $("chart-switch").addEventListener("click", (event) => { if (event.target.dataset.chart) { setState({ chart: event.target.dataset.chart }); showChart(current()); } });
  $("cost-switch").addEventListener("click", (event) => { if (event.target.dataset.cost) { setState({ flops: event.target.dataset.cost }); showChart(current()); } });
  $("filter").addEventListener("input", () => { shownRows = PAGE; setState({ q: $("filter").value }); showTable(current()); });
  $("sort").addEventListener("change", () => {
    const [dir, ...name] = $("sort").value.split(" ");
    setState(name.length ? { sort: name.join(" "), dir } : { sort: null, dir: null });
    showTable(current());
  });
  $("more").addEventListener("click", () => { shownRows += PAGE; showTable(current()); });
  addEventListener("hashchange", showIndex);
  showIndex();
}

/* A run's page */
async function runData(name) {
  const [candidate, rung, seed] = name.split("/");
  return load(`run/${name}`, `runs/${candidate}/${rung}-${seed}.js`);
}

async function showConfiguration(own) {
  const other = $("versus").value.trim(), known = received.runs ?? [];
  const versus = known.includes(other) && other !== document.body.dataset.run ? (await runData(other)).configuration : null;
  const keys = [...new Set([...Object.keys(own), ...Object.keys(versus ?? {})])].sort();
  const differs = (key) => versus !== null && own[key] !== versus[key];
  const shown = keys.filter((key) => !versus || !$("only").checked || differs(key));
  $("config").tHead.replaceChildren(element("tr", {}, ...["field", document.body.dataset.run, ...(versus ? [other] : [])].map((text) => element("th", { scope: "col" }, text))));
  $("config").tBodies[0].replaceChildren(...shown.map((key) => element("tr", differs(key) ? { class: "differs" } : {}, ...[key, own[key] || "–", ...(versus ? [versus[key] || "–"] : [])].map((text) => element("td", {}, text)))));
  $("only").parentElement.hidden = !versus;
  const count = keys.filter(differs).length;
  $("diff-count").textContent = versus ? `${count} ${count === 1 ? "field differs" : "fields differ"}` : other ? "no such run" : `${keys.length} fields`;
}

async function startRun() {
  const [own] = await Promise.all([runData(document.body.dataset.run), load("runs", "data/runs.js")]);
  $("runs").replaceChildren(...received.runs.slice(0, 2000).map((name) => element("option", { value: name })));
  $("versus").value = state().get("vs") ?? "";
  $("only").checked = state().get("all") !== "1";
  $("versus").addEventListener("input", () => { setState({ vs: $("versus").value.trim() }); showConfiguration(own.configuration); });
  $("only").addEventListener("change", () => { setState({ all: $("only").checked ? null : "1" }); showConfiguration(own.configuration); });
  addEventListener("hashchange", () => { $("versus").value = state().get("vs") ?? ""; showConfiguration(own.configuration); });
  redraw = () => draw([{ x: own.curve.tokens, y: own.curve.loss, text: own.curve.step.map((step, at) => `step ${step}: ${own.curve.loss[at]}`), hoverinfo: "text", mode: "lines", line: { color: colours()[1], width: 2 } }],
    { xaxis: { title: { text: "tokens" }, exponentformat: "SI" }, yaxis: { title: { text: "nats per token" } }, showlegend: false });
  if (own.curve.step.length) redraw(); else $("curve-caption").textContent = "There is no step log that can be read.";
  await showConfiguration(own.configuration);
  document.body.dataset.ready = "run";
}

document.body.dataset.page === "run" ? startRun() : startIndex();
