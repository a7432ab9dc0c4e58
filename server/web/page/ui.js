// server/web/page/ui.js: elements, words and numbers.

// Makes an element: h("a", {href}, children…). Texts are never parsed as markup. Styles cannot be attributes, which the
// page's Content-Security-Policy forbids.
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node[key] = value;
    else if (value === true) node.setAttribute(key, "");
    else node.setAttribute(key, value);
  }
  node.append(...children.flat().filter(c => c !== null && c !== undefined && c !== ""));
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// Writes a text only if it has changed, so that nothing flickers and selections stay.
export function text(node, value) {
  if (node.textContent !== String(value)) node.textContent = String(value);
}

export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
  if (ms < 3600000) return `${Math.floor(ms / 60000)} min ${Math.floor(ms % 60000 / 1000)} s`;
  if (ms < 86400000) return `${Math.floor(ms / 3600000)} h ${Math.floor(ms % 3600000 / 60000)} min`;
  return `${Math.floor(ms / 86400000)} d ${Math.floor(ms % 86400000 / 3600000)} h`;
}

// Formats the time since ms, as coarse as people say it.
export function ago(ms) {
  const s = Math.max(0, Math.floor((Date.now() - ms) / 1000)), m = Math.floor(s / 60);
  if (s < 60) return `${s} s`;
  if (m < 60) return `${m} min`;
  return m < 1440 ? `${Math.floor(m / 60)} h ${m % 60} min` : `${Math.floor(m / 1440)} d ${Math.floor(m % 1440 / 60)} h`;
}

// Times are in the browser's time zone, with 24 hours, and in one form: "08:21:37", with the date "2026-11-29 08:21:37".
const two = n => String(n).padStart(2, "0");
const time = at => `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
const date = at => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
const numbers = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 4 });
const wholes = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
export const clock = ms => ms ? time(new Date(ms)) : "–";
export const moment = ms => ms ? `${date(new Date(ms))} ${time(new Date(ms))}` : "–";
// Adds the date if the day is not today.
export const when = ms => ms && date(new Date(ms)) !== date(new Date()) ? moment(ms).slice(5, 16) : clock(ms);
export const number = n => Math.abs(n) >= 1000 ? wholes.format(n) : numbers.format(n);
export const percent = part => `${(part * 100).toFixed(part > 0.9995 || part < 0.1 ? 0 : 1)} %`;
export const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const CAUSES = { start: "#3b82f6", joined: "#06a2b8", node_lost: "#e0575e", trainer_failed: "#b4305e", server_lost: "#8a5a3c", drained: "#d98c0a", preempted: "#d98c0a", interrupted: "#d98c0a", resized: "#8b5cf6" };
export const cause = name => CAUSES[name] ?? "#7a869a";
export const badge = (word, kind) => h("span", { class: `badge ${kind}` }, word);

// What people call the states of a job.
const STATES = {
  waiting: ["Waiting", "warn"], starting: ["Starting", "warn"], running: ["Running", "ok"], restarting: ["Restarting", "warn"],
  suspended: ["Suspended", ""], succeeded: ["Finished", "info"], failed: ["Failed", "bad"], cancelled: ["Cancelled", ""], set_aside: ["Set aside", "bad"],
};
export const stateBadge = job => badge(...(STATES[job.state] ?? [job.state, ""]));
export const isOver = job => ["succeeded", "failed", "cancelled"].includes(job.state);

// The nodes of a job as little boxes, of which filled ones train; above 16 as a bar.
export function slots(members, { min, max }) {
  const label = `${members} of at most ${max} nodes train`;
  if (max <= 16) {
    return h("span", { class: "slots", role: "img", "aria-label": label },
      ...Array.from({ length: max }, (_, i) => h("i", { class: `${i < members ? "on" : ""} ${i < min ? "min" : ""}` })));
  }
  const fill = h("i");
  fill.style.width = `${Math.min(100, 100 * members / max)}%`;
  return h("span", { class: "meter", role: "img", "aria-label": label }, fill);
}

// A small curve of a metric with its name, its axis and the ends of its range.
export function spark(name, values) {
  if (!values || values.length < 2) return "";
  const low = Math.min(...values), high = Math.max(...values), range = high - low || 1;
  const line = values.map((v, i) => `${i ? "L" : "M"}${(i / (values.length - 1) * 104 + 3).toFixed(1)} ${(24 - (v - low) / range * 21).toFixed(1)}`).join("");
  const curve = svg("svg", { class: "spark", viewBox: "0 0 110 28", role: "img", "aria-label": `${name}: last ${number(values.at(-1))}, between ${number(low)} and ${number(high)}` },
    svg("path", { class: "axis", d: "M2 1V26H109" }), svg("path", { d: line }));
  return h("span", { class: "sparks" }, curve, h("span", { class: "range" }, h("span", {}, number(high)), h("span", {}, number(low))), h("span", { class: "sub" }, `${name.replaceAll("_", " ")} ${number(values.at(-1))}`));
}

// A bar with its share in words.
export function share(label, part, words) {
  const fill = h("i", { class: part > 0.9 ? "high" : null });
  fill.style.width = `${Math.round(100 * Math.max(0, Math.min(1, part)))}%`;
  return h("span", { class: "share" }, h("span", { class: "sub" }, label), h("span", { class: "meter", role: "img", "aria-label": `${label} ${words}` }, fill), h("span", { class: "sub" }, words));
}

// Draws rows of a table by key: makes only rows anew whose mark has changed, and moves only rows whose order has.
export function keyed(body, make) {
  const have = new Map();
  return list => {
    const keep = new Set();
    let at = body.firstChild;
    for (const [key, value, mark] of list) {
      keep.add(key);
      let entry = have.get(key);
      if (!entry || entry.mark !== mark) {
        const row = make(value);
        const cells = row.cells.map((content, i) => h("td", { "data-head": row.heads[i] || null, class: [row.wide?.includes(i) ? "wide" : "", row.nums?.includes(i) ? "num" : "", content.every(c => c === "" || c === "–") ? "blank" : ""].join(" ").trim() || null }, ...content));
        if (entry) entry.node.replaceChildren(...cells);
        else have.set(key, entry = { node: h("tr", {}, ...cells) });
        entry.mark = mark;
      }
      if (entry.node === at) at = at.nextSibling;
      else body.insertBefore(entry.node, at);
    }
    for (const [key, entry] of have) if (!keep.has(key)) { entry.node.remove(); have.delete(key); }
  };
}

export function toast(words) {
  const note = h("p", {}, words);
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), 8000);
}
