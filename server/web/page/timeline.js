// server/web/page/timeline.js: the state of each node over time below the epochs, on the page or as an SVG picture.
import { h, svg, span, clock, moment, percent, color, cause, isOver } from "./ui.js";

// The words of the legend for the states of a node. Members of a job with roles have their role instead.
const STATES = { member: "training", spare: "standby", waiting: "standby", preparing: "joining", importing: "joining", leaving: "notice", suspect: "lost", lost: "lost" };
export const ROLES = ["chief", "worker", "ps", "evaluator"];
export const roleOf = place => place ? place.replace(/-\d+$/, "") : null;
const hue = state => `--g-${ROLES.includes(state) ? state : STATES[state] ?? "joining"}`;

// Bounds for a page that stays open: nodes, of which those that left earliest are forgotten, and the last states of each.
const SEEN_MAX = 4000, SPANS_MAX = 200;

// Records that a node has a state since a time; row null: the node has left.
export function track(seen, key, row, at) {
  const node = seen.get(key) ?? { name: row?.name || key, spans: [] };
  const role = row?.state === "member" ? roleOf(row.place) ?? "member" : row?.state ?? "lost";
  const last = node.spans.at(-1);
  if (row) { node.name = row.name || row.node; node.rank = row.rank; node.place = row.place; }
  if (!last || last.role !== role) { if (last) last.to = at; node.spans.push({ role, from: at, to: null }); }
  if (node.spans.length > SPANS_MAX) node.spans.shift();
  if (!row) seen.delete(key); // in the order in which nodes leave
  seen.set(key, node);
  for (const [old, { spans }] of seen.size > SEEN_MAX ? seen : []) {
    if (spans.at(-1).role === "lost" && seen.delete(old) && seen.size <= SEEN_MAX) break;
  }
}

// Adds states from before the page was opened, as far as the events have them.
const BECOMES = { node_joined: "preparing", node_back: "spare", node_ready: "spare", node_suspect: "suspect", node_lost: "lost", node_dead: "lost", node_left: "lost",
                  node_noticed: "leaving", node_stays: "spare" };
function fromEvents(events, rows) {
  const past = new Map();
  for (const e of events) {
    if (e.kind === "epoch") {
      for (const p of past.values()) if (["spare", "member"].includes(p.spans.at(-1).role)) push(p, "member", e.at_ms);
    } else if (e.node && BECOMES[e.kind]) {
      if (!past.has(e.node)) past.set(e.node, { name: e.name || e.node, spans: [] });
      push(past.get(e.node), BECOMES[e.kind], e.at_ms);
    }
  }
  for (const [key, p] of past) {
    const row = rows.get(key), first = row?.spans[0];
    const begins = first?.from ?? Infinity;
    const older = p.spans.filter(s => s.from < begins).map(s => ({ ...s, to: s.to === null || s.to > begins ? (begins === Infinity ? s.to : begins) : s.to }));
    // Events have no roles, and do not say that an evaluator works.
    if (older.at(-1)?.role === (first?.role === "evaluator" ? "spare" : "member") && ROLES.includes(first?.role)) older.at(-1).role = first.role;
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

function rowsOf(store, now) {
  const rows = new Map([...store.seen].map(([key, s]) => [key, { ...s, spans: [...s.spans] }]));
  fromEvents(store.events, rows);
  return [...rows.values()].sort((a, b) => (a.rank ?? 1e9) - (b.rank ?? 1e9) || a.name.localeCompare(b.name))
    .map(r => ({ ...r, name: r.place ? `${r.place} · ${r.name}` : r.name, spans: r.spans.filter(s => s.from < now).map(s => ({ ...s, to: Math.min(s.to ?? now, now) })) }))
    .filter(r => r.spans.length > 0);
}

// The part of a canvas context that paint() uses, as SVG.
class Sheet {
  constructor(wide) {
    this.ruler = document.createElement("canvas").getContext("2d");
    this.root = svg("svg", { width: wide, "font-family": "system-ui, sans-serif", "font-size": "12" });
    this.globalAlpha = 1;
    this.textAlign = "left";
  }
  box(x, y, wide, high, more) { this.root.append(svg("rect", { x: x.toFixed(1), y: y.toFixed(1), width: wide.toFixed(1), height: high.toFixed(1), fill: this.fillStyle, "fill-opacity": this.globalAlpha, ...more })); }
  fillRect(x, y, wide, high) { this.box(x, y, wide, high); }
  beginPath() {}
  roundRect(...path) { this.path = path; }
  fill() { const [x, y, wide, high, r] = this.path; this.box(x, y, wide, high, { rx: r }); }
  measureText(words) {
    this.ruler.font = FONT;
    return this.ruler.measureText(words);
  }
  fillText(words, x, y, most = Infinity) {
    const squeezed = this.measureText(words).width > most ? { textLength: most.toFixed(1), lengthAdjust: "spacingAndGlyphs" } : {};
    this.root.append(svg("text", { x: x.toFixed(1), y: y.toFixed(1), fill: this.fillStyle, "text-anchor": { left: "start", center: "middle", right: "end" }[this.textAlign], ...squeezed }, words));
  }
}

const FONT = "12px system-ui, sans-serif", TOP = 40, FOOT = 22;
const lineOf = n => n <= 12 ? 22 : n <= 40 ? 14 : n <= 220 ? Math.floor(440 / n) : 440 / n; // all of them fit, however thin
const heightOf = n => TOP + Math.ceil(n * lineOf(n)) + FOOT;

// Draws nodes as lines below the epochs, on a canvas, because a thousand rows are too many elements.
function paint(c, wide, { rows, epochs, first, now }) {
  const named = rows.length <= (wide > 500 ? 40 : 12);
  c.font = FONT;
  const left = !named ? 4 : Math.min(wide / 4, 14 + Math.max(0, ...rows.map(r => c.measureText(r.name).width)));
  const line = lineOf(rows.length), height = heightOf(rows.length);
  const x = t => left + (Math.max(t, first) - first) / (now - first) * (wide - left - 6);
  epochs.forEach((e, i) => {
    const from = x(e.started_ms ?? e.detected_ms ?? first), to = x(e.ended_ms ?? epochs[i + 1]?.detected_ms ?? now);
    c.fillStyle = cause(e.cause);
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
    const y = TOP + i * line;
    for (const s of r.spans) {
      const from = x(s.from), to = s.role === "lost" ? Math.min(s.to, s.from + (now - first) / 60) : s.to; // a lost node is shown for a moment only
      c.fillStyle = color(hue(s.role));
      c.fillRect(from, y, Math.max(1, x(to) - from), line < 8 ? line : line - 3);
    }
    if (named) { c.fillStyle = color("--text"); c.fillText(r.name, 2, y + Math.min(line - 3, 14) - 1, left - 10); }
  });
  c.fillStyle = color("--soft");
  const ticks = Math.max(1, Math.min(Math.floor((wide - left) / 120), Math.floor((now - first) / 1000))); // no two ticks have the same text
  for (let i = 0; i <= ticks; i++) {
    const t = first + (now - first) * i / ticks;
    c.textAlign = i === 0 ? "left" : i === ticks ? "right" : "center";
    c.fillText(clock(t), x(t), height - 5);
  }
  c.textAlign = "left";
}

// Draws the shares of training and of downtime by cause.
function paintTotal(c, wide, y, total) {
  const parts = [["Training", color("--g-training"), total.running], ...Object.entries(total.by_cause).map(([name, ms]) => [name.replace("_", " "), cause(name), ms])];
  const all = total.running + total.standstill;
  let x = 4, key = 4;
  for (const [name, fill, ms] of parts.filter(p => p[2] > 0)) {
    c.fillStyle = fill;
    c.fillRect(x, y, Math.max(1, ms / all * (wide - 8)), 16);
    x += ms / all * (wide - 8);
    c.fillRect(key, y + 26, 10, 10);
    c.fillStyle = color("--text");
    const words = `${name} ${span(ms)}`;
    c.fillText(words, key + 16, y + 35);
    key += 34 + c.measureText(words).width;
  }
}

// When a job that is over ended; null for others.
export function endOf(store, job) {
  if (!isOver(job)) return null;
  return job.ended_ms ?? (Math.max(0, ...[...store.epochs.values()].map(e => e.ended_ms ?? 0)) || null);
}

export function timeline() {
  const canvas = h("canvas", { role: "img", "aria-label": "States of the nodes over time" });
  let last = "", seen = null;
  function look(store, job) {
    const ended = endOf(store, job), now = ended ?? Date.now(), rows = rowsOf(store, now), epochs = [...store.epochs.values()].filter(e => e.run === job.run).sort((a, b) => a.epoch - b.epoch);
    for (const { spans: [span] } of rows) { // a member that the page found in an epoch has been in it since its start
      const epoch = ["member", "chief", "worker", "ps"].includes(span?.role) ? epochs.findLast(e => e.started_ms !== null && e.started_ms <= span.from) : null;
      if (epoch && (epoch.ended_ms === null ? !epoch.over : epoch.ended_ms >= span.from)) span.from = epoch.started_ms; // null is less than any time
    }
    return { rows, epochs, now, job, ended, first: Math.min(now - 2000, ...epochs.map(e => e.detected_ms ?? e.started_ms ?? now), ...rows.map(r => r.spans[0]?.from ?? now)) };
  }
  function draw(store, job) {
    const wide = canvas.parentElement?.clientWidth ?? 0;
    seen = look(store, job);
    const { rows, epochs, now, first } = seen;
    const mark = `${wide} ${rows.length} ${epochs.length} ${Math.floor(now / 2000)} ${seen.ended} ${rows.map(r => `${r.spans.length}${r.place ?? ""}`).join()} ${document.documentElement.dataset.theme}`;
    if (!wide || mark === last) return;
    last = mark;
    const height = heightOf(rows.length), ratio = window.devicePixelRatio || 1;
    canvas.width = wide * ratio;
    canvas.height = height * ratio;
    canvas.style.height = `${height}px`;
    const c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    paint(c, wide, seen);
    canvas.setAttribute("aria-label", `${rows.length} nodes, ${epochs.length} epochs, from ${clock(first)} to ${seen.ended ? clock(now) : "now"}`);
  }
  // Returns the picture for a report, with its figures, as the text of an SVG file.
  function picture(total) {
    const wide = 1200, head = 56, height = heightOf(seen.rows.length), sheet = new Sheet(wide), { job } = seen;
    sheet.fillStyle = color("--card");
    sheet.fillRect(0, 0, wide, head + height + 60);
    sheet.fillStyle = color("--text");
    sheet.fillText(`Job ${job.job}, run ${job.run}: ${job.state}`, 4, 20);
    sheet.fillStyle = color("--soft");
    sheet.fillText(`${moment(seen.first)} to ${moment(seen.now)} · ${seen.epochs.length} epochs · goodput ${total.useful === null ? "–" : percent(total.useful)} · downtime ${span(total.standstill)}`, 4, 40);
    const inner = svg("g", { transform: `translate(0 ${head})` }), outer = sheet.root;
    sheet.root = inner;
    paint(sheet, wide, seen);
    if (total.useful !== null) paintTotal(sheet, wide, height + 8, total);
    outer.append(inner);
    outer.setAttribute("height", head + height + 60);
    outer.setAttribute("viewBox", `0 0 ${wide} ${head + height + 60}`);
    return new XMLSerializer().serializeToString(outer);
  }
  return { node: canvas, draw, picture };
}

export function save(words, type, name) {
  const link = h("a", { href: URL.createObjectURL(new Blob([words], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
