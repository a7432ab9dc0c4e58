// server/web/page/plots.js: time on the x axis: nodes, epochs, metrics, and the phases of a standstill.
/* global Chart */
import { h, svg, span, clock, number } from "/ui.js";

const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const COLORS = { member: "training", spare: "standby", waiting: "standby", preparing: "joining", importing: "joining", leaving: "notice", suspect: "lost", lost: "lost" };
const CAUSES = { start: "#3b82f6", joined: "#06a2b8", node_lost: "#e0575e", trainer_failed: "#e0575e", drained: "#d98c0a", preempted: "#d98c0a", resized: "#8b5cf6" };

// The phases of an epoch's beginning as a bar; the words are beside it for who does not see it.
const PHASES = [["noticed", "detected_ms", "stopped_ms"], ["stopped", "stopped_ms", "gathered_ms"], ["ready", "gathered_ms", "committed_ms"], ["written", "committed_ms", "started_ms"], ["first step", "started_ms", "progressed_ms"]];
export function phases(e) {
  const parts = PHASES.map(([name, from, to], i) => ({ name, i, ms: e[from] && e[to] ? Math.max(0, e[to] - e[from]) : 0 })).filter(p => p.ms > 0);
  const total = parts.reduce((n, p) => n + p.ms, 0);
  if (!total) return "–";
  const words = parts.map(p => `${p.name} ${span(p.ms)}`).join(", ");
  return h("div", { class: "stack", role: "img", "aria-label": words, title: words }, ...parts.map(p => {
    const bar = h("i", { class: `p${p.i}` });
    bar.style.width = `${100 * p.ms / total}%`;
    return bar;
  }));
}

// Nodes over time, coloured by what they were, epochs as bands above. Drawn by hand: a thousand rows are a picture.
export function timeline() {
  const canvas = h("canvas", { role: "img", "aria-label": "What each node was over time" });
  let last = "";
  const spansOf = (store, now) => {
    const rows = new Map([...store.seen].map(([key, s]) => [key, { name: s.name, rank: s.rank, spans: [...s.spans] }]));
    fromEvents(store, rows);
    return [...rows.values()].sort((a, b) => (a.rank ?? 1e9) - (b.rank ?? 1e9) || a.name.localeCompare(b.name)).map(r => ({ ...r, spans: r.spans.map(s => ({ ...s, to: s.to ?? now })) }));
  };
  function draw(store, job) {
    const now = Date.now(), rows = spansOf(store, now), epochs = [...store.epochs.values()].filter(e => e.run === job.run).sort((a, b) => a.epoch - b.epoch);
    const wide = canvas.parentElement?.clientWidth ?? 0;
    const mark = `${wide} ${rows.length} ${epochs.length} ${Math.floor(now / 2000)} ${rows.map(r => r.spans.length).join()} ${document.documentElement.dataset.theme}`;
    if (!wide || mark === last) return;
    last = mark;
    const names = rows.length <= (wide > 500 ? 40 : 12), left = !names ? 4 : wide > 500 ? 120 : 64, top = 40;
    const line = rows.length <= 12 ? 22 : rows.length <= 40 ? 14 : Math.max(2, Math.floor(440 / rows.length));
    const height = top + Math.min(rows.length * line, 480) + 22, ratio = window.devicePixelRatio || 1;
    canvas.width = wide * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    c.font = "12px system-ui, sans-serif";
    const first = Math.min(now - 2000, ...epochs.map(e => e.detected_ms ?? e.started_ms ?? now), ...rows.map(r => r.spans[0]?.from ?? now));
    const x = t => left + (t - first) / (now - first) * (wide - left - 6);
    epochs.forEach((e, i) => {
      const from = x(e.started_ms ?? e.detected_ms ?? first), to = x(e.ended_ms ?? epochs[i + 1]?.detected_ms ?? now);
      c.fillStyle = CAUSES[e.cause] ?? "#7a869a";
      c.globalAlpha = .9;
      c.beginPath();
      c.roundRect(from, 4, Math.max(2, to - from - 1), 22, 3);
      c.fill();
      c.globalAlpha = 1;
      c.fillStyle = "#fff";
      if (to - from > 26) c.fillText(to - from > 110 ? `${e.epoch} · ${e.cause.replace("_", " ")}` : String(e.epoch), from + 6, 19, to - from - 10);
      c.fillStyle = color("--line");
      c.fillRect(from, 28, 1, height - 50);
    });
    rows.forEach((r, i) => {
      const y = top + i * line;
      if (y > height - 22) return;
      for (const s of r.spans) {
        c.fillStyle = color(`--g-${COLORS[s.role] ?? "joining"}`);
        c.fillRect(x(Math.max(s.from, first)), y, Math.max(1, x(s.role === "lost" ? Math.min(s.to, s.from + (now - first) / 60) : s.to) - x(Math.max(s.from, first))), Math.max(1, line - 3));
      }
      if (names) { c.fillStyle = color("--text"); c.fillText(r.name, 2, y + Math.min(line - 3, 14) - 1, left - 10); }
    });
    c.fillStyle = color("--soft");
    const ticks = Math.max(2, Math.floor((wide - left) / 160));
    for (let i = 0; i <= ticks; i++) {
      const t = first + (now - first) * i / ticks;
      c.textAlign = i === 0 ? "left" : i === ticks ? "right" : "center";
      c.fillText(clock(t), x(t), height - 5);
    }
    c.textAlign = "left";
    canvas.setAttribute("aria-label", `${rows.length} nodes, ${epochs.length} epochs, from ${clock(first)} until now`);
  }
  const save = name => canvas.toBlob(blob => {
    const link = h("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  return { node: canvas, draw, save };
}

// What happened before the page was open, as far as the events tell.
const BECOMES = { joined: "preparing", back: "spare", ready: "spare", suspect: "suspect", lost: "lost", dead: "lost", left: "lost", notice: "leaving", stays: "spare" };
function fromEvents(store, rows) {
  const past = new Map();
  for (const e of store.events) {
    if (e.kind === "epoch") {
      for (const p of past.values()) if (["spare", "member"].includes(p.spans.at(-1).role)) push(p, "member", e.at_ms);
    } else if (e.node && BECOMES[e.kind]) {
      if (!past.has(e.node)) past.set(e.node, { name: e.name || e.node, spans: [] });
      push(past.get(e.node), BECOMES[e.kind], e.at_ms);
    }
  }
  for (const [key, p] of past) {
    const row = rows.get(key);
    const begins = row?.spans[0]?.from ?? Infinity;
    const older = p.spans.filter(s => s.from < begins).map(s => ({ ...s, to: s.to === null || s.to > begins ? (begins === Infinity ? s.to : begins) : s.to }));
    if (row) row.spans.unshift(...older);
    else rows.set(key, { name: p.name, spans: older });
  }
}
function push(p, role, at) {
  const last = p.spans.at(-1);
  if (last?.role === role) return;
  if (last) last.to = at;
  p.spans.push({ role, from: at, to: null });
}

function options(unit) {
  const grid = color("--line"), soft = color("--soft");
  return {
    animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true, interaction: { mode: "nearest", axis: "x", intersect: false },
    scales: {
      x: { type: "linear", bounds: "data", grid: { color: grid }, ticks: { color: soft, maxTicksLimit: 6, maxRotation: 0, callback: v => clock(v) } },
      y: { grid: { color: grid }, ticks: { color: soft, maxTicksLimit: 5, callback: v => number(v) }, beginAtZero: unit === "nodes" },
    },
    plugins: { legend: { display: false }, tooltip: { callbacks: { title: items => clock(items[0].parsed.x), label: item => `${item.dataset.label}: ${number(item.parsed.y)}` } } },
  };
}

// One curve for each name that the scripts tell, with a line where an epoch began.
export function series() {
  const node = h("div", {}), charts = new Map(), none = h("p", { class: "empty" }, "No numbers yet. Scripts tell them by tfe.progress(step, metrics={…}), or print tfe: step=… loss=…");
  node.append(none);
  let theme = null;
  return { node, draw(points, epochs) {
    none.hidden = points.size > 0;
    if (theme !== document.documentElement.dataset.theme) { this.close(); theme = document.documentElement.dataset.theme; }
    for (const [name, list] of points) {
      const mark = `${list.length} ${list.at(-1).ord} ${epochs.length}`;
      let entry = charts.get(name);
      if (!entry) {
        const canvas = h("canvas", { role: "img" }), box = h("figure", {}, h("figcaption", { class: "sub" }, name.replaceAll("_", " ")), h("div", { class: "chart" }, canvas));
        node.append(box);
        entry = { box, canvas, chart: new Chart(canvas, { type: "line", data: { datasets: [{ label: name, data: [], borderColor: color("--link"), borderWidth: 1.6, pointRadius: 0 }] }, options: options(), plugins: [marks] }) };
        charts.set(name, entry);
      }
      if (entry.mark === mark) continue;
      entry.mark = mark;
      entry.chart.$epochs = epochs;
      entry.chart.data.datasets[0].pointRadius = list.length < 2 ? 3 : 0; // one alone is no line
      entry.chart.data.datasets[0].data = list.map(p => ({ x: p.at_ms, y: p.value }));
      entry.canvas.setAttribute("aria-label", `${name}: ${list.length} points, last ${number(list.at(-1).value)}`);
      entry.chart.update("none");
    }
  }, close() { for (const e of charts.values()) { e.chart.destroy(); e.box.remove(); } charts.clear(); } };
}

const marks = { id: "epochs", afterDatasetsDraw(chart) {
  const { ctx, chartArea: area, scales: { x } } = chart;
  for (const e of chart.$epochs ?? []) {
    const at = x.getPixelForValue(e.started_ms ?? e.detected_ms);
    if (at < area.left || at > area.right) continue;
    ctx.save();
    ctx.strokeStyle = CAUSES[e.cause] ?? "#7a869a";
    ctx.setLineDash([3, 3]);
    ctx.beginPath();
    ctx.moveTo(at, area.top);
    ctx.lineTo(at, area.bottom);
    ctx.stroke();
    ctx.restore();
  }
} };

// How many nodes trained when.
export function members() {
  const canvas = h("canvas", { role: "img", "aria-label": "Nodes over time" }), node = h("div", { class: "chart" }, canvas);
  let chart = null, last = "";
  return { node, draw(list) {
    const epochs = [...list].sort((a, b) => a.epoch - b.epoch), now = Date.now(), theme = document.documentElement.dataset.theme;
    const mark = `${epochs.length} ${epochs.at(-1)?.over} ${Math.floor(now / 5000)} ${theme}`;
    if (mark === last) return;
    if (!last.endsWith(theme)) this.close();
    last = mark;
    const data = [];
    epochs.forEach((e, i) => {
      const from = e.started_ms ?? e.detected_ms, to = e.ended_ms ?? epochs[i + 1]?.detected_ms ?? now;
      if (from) data.push({ x: from, y: 0 }, { x: from, y: e.nodes }, { x: to, y: e.nodes }, { x: to, y: 0 });
    });
    const green = color("--g-training");
    chart ??= new Chart(canvas, { type: "line", data: { datasets: [{ label: "nodes", data: [], borderColor: green, backgroundColor: `${green}40`, fill: "origin", borderWidth: 1.6, pointRadius: 0 }] }, options: options("nodes") });
    chart.data.datasets[0].data = data;
    chart.update("none");
    canvas.setAttribute("aria-label", `Nodes over time: now ${epochs.at(-1)?.over === false ? epochs.at(-1).nodes : 0}`);
  }, close() { chart?.destroy(); chart = null; } };
}
