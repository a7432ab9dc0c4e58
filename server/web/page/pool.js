// server/web/page/pool.js: jobs that were handed in, the nodes that wait for them, and what one job has gone through.
import { h, text, moment, badge, keyed, ago } from "./ui.js";
import { store, tilesOf, machine } from "./app.js";
import { order } from "./orders.js";

const labels = node => Object.entries(node.labels).map(([key, value]) => `${key}=${value}`).join(", ");

const JOBS = { waiting: "warn", starting: "warn", running: "ok", restarting: "warn", suspended: "", succeeded: "info", failed: "bad", cancelled: "" };
const NODES = { free: "info", assigned: "ok", leaving: "warn", away: "bad", resting: "warn", warned: "warn" };
const link = job => h("a", { href: `#/job/${encodeURIComponent(job)}` }, job);
const since = ms => h("time", { datetime: new Date(ms).toISOString(), title: moment(ms) }, ago(ms));
const head = (names, nums) => h("thead", {}, h("tr", {}, ...names.map((name, i) => h("th", { scope: "col", class: nums.includes(i) ? "num" : null }, name))));

// Nodes beside those that work: each chief, ps and evaluator is one.
function sizes(job) {
  const work = job.min === job.max ? `${job.min}` : `${job.min}:${job.max}`;
  return [work, job.ps && `${job.ps} ps`, job.chief && "chief", job.evaluator && "evaluator"].filter(Boolean).join(" + ");
}

// A table that shows a part of its rows: list() is all of them, each [key, row, words that are sought, mark].
function table(id, label, heads, row, list, total) {
  const body = h("tbody"), counted = h("span", { class: "sub" }), none = h("p", { class: "empty", hidden: true });
  const filter = h("input", { type: "search", placeholder: `Find in ${label.toLowerCase()}`, "aria-label": `Find in ${label.toLowerCase()}`, oninput: () => draw() });
  const more = h("div", { class: "more", hidden: true }, h("button", { type: "button", onclick: () => { limit += 200; draw(); } }, "Show more"));
  const rows = keyed(body, value => ({ ...row(value), heads: heads.map((name, i) => i < 2 ? "" : name) })); // the first two speak for themselves
  const node = h("table", { class: "wraps", id }, h("caption", { class: "sr" }, label), head(heads, row.nums ?? []), body);
  let limit = 100, empty = "";
  function draw(words = empty) {
    const all = list(), sought = filter.value.trim().toLowerCase(), chosen = all.filter(r => !sought || r[2].toLowerCase().includes(sought));
    empty = words;
    rows(chosen.slice(0, limit).map(([key, value, , mark]) => [key, value, mark]));
    more.hidden = chosen.length <= limit;
    node.hidden = chosen.length === 0;
    none.hidden = chosen.length > 0;
    text(none, sought ? "Nothing here has that in it." : empty);
    text(counted, total() > all.length ? `${all.length} of ${total()} shown` : `${all.length}`);
  }
  return { draw, node: h("section", { class: "card" }, h("header", {}, h("h2", {}, label), counted, filter), none, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, node), more) };
}

function jobRow(job) {
  return {
    cells: [[link(job.job), h("div", { class: "sub mono" }, job.command)], [badge(job.state, JOBS[job.state] ?? "")], [String(job.priority)],
      [`${job.nodes_assigned}`, h("div", { class: "sub" }, `of ${sizes(job)}`)], [since(job.created_ms)], [since(job.since_ms)], [job.waits ?? ""]],
    wide: [0, 6], nums: jobRow.nums,
  };
}
jobRow.nums = [2, 3];

function nodeRow(node) {
  return {
    cells: [[node.name || node.node.slice(0, 12), h("div", { class: "sub" }, node.host ?? "")], [badge(node.state, NODES[node.state] ?? "")], [since(node.since_ms)],
      [node.job ? link(node.job) : "–", node.role ? h("div", { class: "sub" }, node.role) : ""], [labels(node) ? h("span", { class: "mono" }, labels(node)) : "–"], [machine(node)]],
    wide: [0, 4],
  };
}

export function pool(main, events) {
  const tiles = h("dl", { class: "tiles" });
  const jobs = table("queue", "Jobs that were handed in", ["Job", "State", "Priority", "Nodes", "Age", "In this state", "Waits for"], jobRow,
    () => [...store.queue.values()].sort((a, b) => OVER.has(a.state) - OVER.has(b.state) || b.priority - a.priority || a.created_ms - b.created_ms)
      .map(j => [j.job, j, `${j.job} ${j.state} ${j.command}`, `${j.told_ms} ${ago(j.created_ms)} ${ago(j.since_ms)}`]),
    () => store.rows.queue ?? 0);
  const nodes = table("pool", "Nodes of the pool", ["Node", "State", "Since", "Works for", "Labels", "Machine"], nodeRow,
    () => [...store.pool.values()].sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }) || a.node.localeCompare(b.node))
      .map(n => [n.node, n, `${n.name} ${n.node} ${n.state} ${n.job ?? ""} ${labels(n)} ${n.host ?? ""}`, `${n.told_ms} ${ago(n.since_ms)}`]),
    () => store.rows.pool ?? 0);
  const drawn = events(null);
  main.replaceChildren(h("h1", { class: "sr" }, "Pool"), tiles, jobs.node, nodes.node, drawn.node);
  return { update() {
    const is = state => [...store.pool.values()].filter(n => n.state === state).length, queued = [...store.queue.values()].filter(j => j.state === "waiting");
    const of = store.rows.pool > store.pool.size ? `of ${store.pool.size} shown` : "";
    tilesOf(tiles, [["Free", is("free"), of], ["At work", is("assigned"), of], ["Leaving a job", is("leaving"), of], ["Away, or resting", is("away") + is("resting"), of], ["Warned", is("warned"), of],
      ["Jobs that wait", queued.length], ["The oldest waits", queued.length ? ago(Math.min(...queued.map(j => j.since_ms))) : "–"]]);
    jobs.draw(store.rows.queue === undefined ? "Asking the server …" : "No job was handed in: tfe-ctl submit, or POST /api/v1/jobs.");
    nodes.draw(store.rows.pool === undefined ? "Asking the server …" : "No node waits in the pool: tfe-agent --pool.");
    drawn.draw();
  } };
}
const OVER = new Set(["succeeded", "failed", "cancelled"]);

// Of a job that was handed in: what it wants, and since when what is so. Hidden for all others.
export function conditions(name) {
  const state = h("span"), wants = h("dl", { class: "facts" }), body = h("tbody"), acts = h("div", { class: "acts" });
  const rows = keyed(body, c => ({ cells: [[c.condition], [badge(c.status ? "yes" : "no", c.status ? "ok" : "")], [moment(c.at_ms)], [c.reason], [c.says]], heads: ["", "Now", "Since", "Reason", ""], wide: [0, 4] }));
  const act = (verb, label, css) => h("button", { type: "button", class: css, onclick: () => order(verb, name) }, label);
  const node = h("section", { class: "card", hidden: true, id: "conditions" }, h("header", {}, h("h2", {}, "Handed in"), state, acts), h("div", { class: "body" }, wants),
    h("table", { class: "wraps" }, h("caption", { class: "sr" }, "Conditions"), head(["Condition", "Now", "Since", "Reason", "Says"], []), body));
  const job = () => store.conditions.get(`job/${name}`);
  let last = "", acted = "";
  function draw() {
    const is = job();
    node.hidden = is?.origin !== "submitted";
    if (node.hidden) return;
    const list = [["Runs", is.command], ["Files", is.source], ["Nodes", `${is.nodes_assigned ?? 0} of ${sizes(is)}`], ["Priority", is.priority], ["Handed in", moment(is.created_ms)], ["Waits for", is.waits && `${is.waits} (${ago(is.since_ms)})`]].filter(([, v]) => v != null && v !== "");
    if (last !== (last = JSON.stringify(list))) wants.replaceChildren(...list.flatMap(([k, v]) => [h("dt", {}, k), h("dd", { class: k === "Runs" || k === "Files" ? "mono" : null }, String(v))]));
    if (acted !== (acted = `${is.state} ${is.lingers}`)) {
      state.replaceChildren(badge(is.state, JOBS[is.state] ?? ""));
      acts.replaceChildren(...(is.lingers ? [act("cancel", "Cancel", "danger")] : OVER.has(is.state) ? [act("restart", "Run again", "")] : [is.state === "suspended" ? act("resume", "Resume", "") : act("suspend", "Suspend", ""), act("cancel", "Cancel", "danger")]));
    }
    rows([...store.conditions.values()].filter(c => c.condition).sort((a, b) => a.at_ms - b.at_ms).map(c => [c.condition, c, `${c.told_ms}`]));
  }
  return { node, draw, known: () => Boolean(job()) };
}
