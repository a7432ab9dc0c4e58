// server/web/page/plots.js: metrics of the scripts and the number of nodes over time, and the phases of an epoch's downtime.
/* global Chart */
import { h, span, clock, number, color, cause } from "./ui.js";

// The phases of an epoch's start as a bar, with the durations as its label.
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

// Puts as many times on the axis as fit, including both ends.
function evenly(axis) {
  const n = Math.max(1, Math.min(6, Math.floor(axis.chart.width / 110)));
  axis.ticks = Array.from({ length: n + 1 }, (_, i) => ({ value: axis.min + (axis.max - axis.min) * i / n }));
}

function options(unit) {
  const grid = color("--line"), soft = color("--soft");
  return {
    animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true, interaction: { mode: "nearest", axis: "x", intersect: false },
    scales: {
      x: { type: "linear", bounds: "data", grid: { color: grid }, ticks: { color: soft, maxRotation: 0, autoSkip: false, callback: v => clock(v) }, afterBuildTicks: evenly },
      y: { grid: { color: grid }, ticks: { color: soft, maxTicksLimit: 5, precision: unit === "nodes" ? 0 : undefined, callback: v => number(v) }, beginAtZero: unit === "nodes" },
    },
    plugins: { legend: { display: false }, tooltip: { callbacks: { title: items => clock(items[0].parsed.x), label: item => `${item.dataset.label}: ${number(item.parsed.y)}` } } },
  };
}

// Puts a chart below its name.
const figure = (name, canvas) => h("figure", {}, h("figcaption", { class: "sub" }, name), h("div", { class: "chart" }, canvas));

// One chart for each metric that the scripts report, with a line where an epoch began. besides: figures that come first.
export function series(...besides) {
  const charts = new Map(), none = h("p", { class: "empty" }, "No metrics yet. Scripts report them with tfe.progress(step, metrics={…}), or print tfe: step=… loss=…");
  const node = h("div", { class: "curves" }, ...besides, none);
  let theme = null;
  return { node, draw(points, epochs) {
    none.hidden = points.size > 0;
    if (theme !== document.documentElement.dataset.theme) { this.close(); theme = document.documentElement.dataset.theme; }
    for (const [name, list] of points) {
      const mark = `${list.length} ${list.at(-1).ord} ${epochs.length}`;
      let entry = charts.get(name);
      if (!entry) {
        const canvas = h("canvas", { role: "img" }), box = figure(name.replaceAll("_", " "), canvas);
        node.append(box);
        entry = { box, canvas, chart: new Chart(canvas, { type: "line", data: { datasets: [{ label: name, data: [], borderColor: color("--link"), borderWidth: 1.6, pointRadius: at => at.dataset.data.length < 2 ? 3 : 0 }] }, options: options(), plugins: [marks] }) };
        charts.set(name, entry);
      }
      if (entry.mark === mark) continue;
      entry.mark = mark;
      entry.chart.$epochs = epochs;
      const alone = list.length < 2 ? list[0].at_ms : null; // a single point gets an axis of half a minute
      Object.assign(entry.chart.options.scales.x, { min: alone === null ? undefined : alone - 15000, max: alone === null ? undefined : alone + 15000 });
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
    ctx.strokeStyle = cause(e.cause);
    ctx.setLineDash([3, 3]);
    ctx.beginPath();
    ctx.moveTo(at, area.top);
    ctx.lineTo(at, area.bottom);
    ctx.stroke();
    ctx.restore();
  }
} };

// The number of nodes that trained, over time.
export function members() {
  const canvas = h("canvas", { role: "img", "aria-label": "Nodes over time" }), node = figure("nodes", canvas);
  let chart = null, last = "";
  return { node, draw(list, ended) {
    const epochs = [...list].sort((a, b) => a.epoch - b.epoch), now = ended ?? Date.now(), theme = document.documentElement.dataset.theme;
    const mark = `${epochs.length} ${epochs.at(-1)?.over} ${Math.floor(now / 5000)} ${theme}`;
    if (mark === last) return;
    if (!last.endsWith(theme)) this.close();
    last = mark;
    const data = [];
    epochs.forEach((e, i) => {
      const from = e.started_ms ?? e.detected_ms, to = e.ended_ms ?? epochs[i + 1]?.detected_ms ?? now;
      if (from) data.push({ x: from, y: 0 }, { x: from, y: e.members }, { x: to, y: e.members }, { x: to, y: 0 });
    });
    const green = color("--g-training");
    chart ??= new Chart(canvas, { type: "line", data: { datasets: [{ label: "nodes", data: [], borderColor: green, backgroundColor: `${green}40`, fill: "origin", borderWidth: 1.6, pointRadius: 0 }] }, options: options("nodes") });
    chart.data.datasets[0].data = data;
    chart.update("none");
    canvas.setAttribute("aria-label", `Nodes over time: now ${epochs.at(-1)?.over === false ? epochs.at(-1).members : 0}`);
  }, close() { chart?.destroy(); chart = null; } };
}
