// server/web/page/pool.js: submitted jobs and the nodes of the pool, and the submission of one job.
import { h, text, moment, badge, stateBadge, isOver, keyed, ago } from "./ui.js";
import { store, tilesOf, machine } from "./app.js";

const labels = node => Object.entries(node.labels).map(([key, value]) => `${key}=${value}`).join(", ");

const NODES = { free: ["Free", "info"], assigned: ["Assigned", "ok"], leaving: ["Leaving", "warn"], away: ["Away", "bad"], resting: ["Backing off", "warn"], warned: ["Warned", "warn"] };
const link = job => h("a", { href: `#/job/${encodeURIComponent(job)}` }, job);
const since = ms => h("time", { datetime: new Date(ms).toISOString(), title: moment(ms) }, ago(ms));
const head = (names, nums) => h("thead", {}, h("tr", {}, ...names.map((name, i) => h("th", { scope: "col", class: nums.includes(i) ? "num" : null }, name))));

// The nodes that a job wants: workers, and one node for each ps, chief and evaluator.
function sizes(job) {
  const work = job.min === job.max ? `${job.min}` : `${job.min}:${job.max}`;
  return [work, job.ps && `${job.ps} ps`, job.chief && "chief", job.evaluator && "evaluator"].filter(Boolean).join(" + ");
}

// A table that shows a part of its rows. list() returns all rows, each [key, row, searchable text, mark].
function table(id, label, heads, row, list, total) {
  const body = h("tbody"), counted = h("span", { class: "sub" }), none = h("p", { class: "empty", hidden: true });
  const filter = h("input", { type: "search", placeholder: `Find in ${label.toLowerCase()}`, "aria-label": `Find in ${label.toLowerCase()}`, oninput: () => draw() });
  const more = h("div", { class: "more", hidden: true }, h("button", { type: "button", onclick: () => { limit += 200; draw(); } }, "Show more"));
  const rows = keyed(body, value => ({ ...row(value), heads: heads.map((name, i) => i < 2 ? "" : name) })); // the first two need no label
  const node = h("table", { class: "wraps", id }, h("caption", { class: "sr" }, label), head(heads, row.nums ?? []), body);
  let limit = 100, empty = "";
  function draw(words = empty) {
    const all = list(), sought = filter.value.trim().toLowerCase(), chosen = all.filter(r => !sought || r[2].toLowerCase().includes(sought));
    empty = words;
    rows(chosen.slice(0, limit).map(([key, value, , mark]) => [key, value, mark]));
    more.hidden = chosen.length <= limit;
    node.hidden = chosen.length === 0;
    none.hidden = chosen.length > 0;
    text(none, sought ? "No row matches." : empty);
    text(counted, total() > all.length ? `${all.length} of ${total()} shown` : `${all.length}`);
  }
  return { draw, node: h("section", { class: "card" }, h("header", {}, h("h2", {}, label), counted, filter), none, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, node), more) };
}

const command = job => (job.spec?.command ?? []).join(" ");

function files(job) {
  const { path, bundle, git, ref } = job.spec?.source ?? {};
  return path ?? bundle ?? (git ? `${git}@${ref}` : "");
}

function jobRow(job) {
  return {
    cells: [[link(job.job), h("div", { class: "sub mono" }, command(job))], [stateBadge(job)], [String(job.priority)],
      [`${job.nodes_assigned}`, h("div", { class: "sub" }, `of ${sizes(job)}`)], [since(job.created_ms)], [since(job.since_ms)], [job.waits ?? job.reason ?? ""]],
    wide: [0, 6], nums: jobRow.nums,
  };
}
jobRow.nums = [2, 3];

function nodeRow(node) {
  return {
    cells: [[node.name || node.node.slice(0, 12), h("div", { class: "sub" }, node.host ?? "")], [badge(...(NODES[node.state] ?? [node.state, ""]))], [since(node.since_ms)],
      [node.job ? link(node.job) : "–", node.role ? h("div", { class: "sub" }, node.role) : ""], [labels(node) ? h("span", { class: "mono" }, labels(node)) : "–"], [machine(node)]],
    wide: [0, 4],
  };
}

const submitted = () => [...store.jobs.values()].filter(j => j.origin === "submitted");

export function pool(main, events) {
  const tiles = h("dl", { class: "tiles" });
  const jobs = table("queue", "Submitted jobs", ["Job", "State", "Priority", "Nodes", "Age", "In this state", "Message"], jobRow,
    () => submitted().sort((a, b) => isOver(a) - isOver(b) || b.priority - a.priority || a.created_ms - b.created_ms)
      .map(j => [j.job, j, `${j.job} ${j.state} ${command(j)}`, `${j.told_ms} ${ago(j.created_ms)} ${ago(j.since_ms)}`]),
    () => submitted().length);
  const nodes = table("pool", "Nodes of the pool", ["Node", "State", "Since", "Job", "Labels", "Machine"], nodeRow,
    () => [...store.pool.values()].sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }) || a.node.localeCompare(b.node))
      .map(n => [n.node, n, `${n.name} ${n.node} ${n.state} ${n.job ?? ""} ${labels(n)} ${n.host ?? ""}`, `${n.told_ms} ${ago(n.since_ms)}`]),
    () => store.rows.pool ?? 0);
  const drawn = events(null);
  main.replaceChildren(h("h1", { class: "sr" }, "Pool"), tiles, jobs.node, nodes.node, drawn.node);
  return { update() {
    const count = state => [...store.pool.values()].filter(n => n.state === state).length, waiting = submitted().filter(j => j.state === "waiting");
    const of = store.rows.pool > store.pool.size ? `of ${store.pool.size} shown` : "";
    tilesOf(tiles, [["Free", count("free"), of], ["Assigned", count("assigned"), of], ["Leaving", count("leaving"), of], ["Away or backing off", count("away") + count("resting"), of], ["Warned", count("warned"), of],
      ["Waiting jobs", waiting.length], ["Longest wait", waiting.length ? ago(Math.min(...waiting.map(j => j.since_ms))) : "–"]]);
    jobs.draw(store.rows.fleet === undefined ? "Loading …" : "No job was submitted yet. Use “Submit job” on the page of jobs, or tfe-ctl submit.");
    nodes.draw(store.rows.pool === undefined ? "Loading …" : "The pool has no nodes. Start tfe-agent --pool on a machine.");
    drawn.draw();
  } };
}

// The submission of a job and its conditions; for a job that agents opened, its artifacts if it has any.
export function submission(name) {
  const wants = h("dl", { class: "facts" }), body = h("tbody"), title = h("h2", {}, "Submission");
  const rows = keyed(body, c => ({ cells: [[c.condition], [badge(c.status ? "yes" : "no", c.status ? "ok" : "")], [h("span", { class: "once" }, moment(c.at_ms))], [c.reason], [c.message]], heads: ["", "Status", "Since", "Reason", ""], wide: [0, 4] }));
  const node = h("section", { class: "card", hidden: true, id: "conditions" }, h("header", {}, title), h("div", { class: "body" }, wants),
    h("table", { class: "wraps" }, h("caption", { class: "sr" }, "Conditions"), head(["Condition", "Status", "Since", "Reason", "Message"], []), body));
  const job = () => store.conditions.get(`job/${name}`);
  let last = "";
  function draw() {
    const is = job();
    const conditions = [...store.conditions.values()].filter(c => c.condition), isSubmitted = is?.origin === "submitted";
    node.hidden = !isSubmitted && !conditions.some(c => c.condition === "Artifacts");
    if (node.hidden) return;
    title.textContent = isSubmitted ? "Submission" : "Artifacts";
    const list = !isSubmitted ? [] : [["Command", command(is)], ["Files", files(is)], ["Nodes", `${is.nodes_assigned ?? 0} of ${sizes(is)}`], ["Priority", is.priority], ["Submitted", moment(is.created_ms)]].filter(([, v]) => v != null && v !== "");
    if (last !== (last = JSON.stringify(list))) wants.replaceChildren(...list.flatMap(([k, v]) => [h("dt", {}, k), h("dd", { class: k === "Command" || k === "Files" ? "mono" : null }, String(v))]));
    rows(conditions.sort((a, b) => a.at_ms - b.at_ms).map(c => [c.condition, c, `${c.told_ms}`]));
  }
  return { node, draw, job };
}
