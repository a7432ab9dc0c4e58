// server/web/page/app.js: the page: a store that the event stream fills, and views that draw what has changed.
import { h, text, span, ago, clock, moment, when, number, percent, badge, stateBadge, isOver, slots, spark, share, keyed, toast } from "./ui.js";
import { phases, series, members } from "./plots.js";
import { timeline, track, save, roleOf, endOf, ROLES } from "./timeline.js";
import { order, submit, login, logout, mayEnd, session, history } from "./orders.js";
import { logs } from "./logs.js";
import { pool, submission } from "./pool.js";

export const store = {
  session: null, up: null, why: "", route: { view: "fleet" }, job: null,
  jobs: new Map(), health: new Map(), nodes: new Map(), epochs: new Map(), events: [], seen: new Map(),
  points: new Map(), conditions: new Map(), pool: new Map(), at: 0, rows: {},
  first_ms: null, busy_ms: 0, took: [], // the cost of drawing, for tests
};
const main = document.getElementById("main");
let source = null, screen = null, pending = false;

// --- the stream -----------------------------------------------------------------------------------------------------

const into = { nodes: "nodes", epochs: "epochs", conditions: "conditions", pool: "pool" };

function apply(kind, data) {
  store.at = data.at_ms;
  store.rows[kind] = data.rows;
  if (kind === "fleet") {
    if (data.whole) { store.jobs.clear(); store.health.clear(); }
    for (const [key, row] of Object.entries(data.set)) {
      row.told_ms = data.at_ms;
      if (key.startsWith("health/")) store.health.set(key, row);
      else { store.jobs.set(row.job, row); remember(row); }
    }
    for (const key of data.gone ?? []) { store.health.delete(key); store.jobs.delete(key.slice(4)); sparks.delete(key.slice(4)); }
  } else if (kind === "events") {
    if (data.whole) store.events = [];
    store.events.push(...Object.values(data.set));
    if (store.events.length > 500) store.events.splice(0, store.events.length - 500);
  } else if (kind === "points") {
    if (data.whole) store.points.clear();
    for (const p of Object.values(data.set)) point(p);
  } else if (into[kind]) {
    const map = store[into[kind]];
    if (data.whole) { // nodes that left while the stream was behind
      if (kind === "nodes") for (const key of map.keys()) if (!(key in data.set)) track(store.seen, key, null, data.at_ms);
      map.clear();
    }
    for (const [key, row] of Object.entries(data.set)) {
      row.told_ms = data.at_ms;
      if (kind === "nodes") track(store.seen, key, row, data.at_ms);
      map.set(key, row);
    }
    for (const key of data.gone ?? []) { map.delete(key); if (kind === "nodes") track(store.seen, key, null, data.at_ms); }
  }
}

// Adds the newest point of a curve. Its earlier points are requested once.
function point(p) {
  let curve = store.points.get(p.name);
  if (!curve || curve.at(-1)?.run !== p.run) {
    store.points.set(p.name, curve = []);
    history(p.job, p.name).then(older => {
      if (store.points.get(p.name) !== curve) return; // another job, or another run meanwhile
      curve.unshift(...older.filter(o => o.run === p.run && o.ord < curve[0].ord));
      changed();
    }).catch(e => toast(e.message));
  }
  if (!curve.length || curve.at(-1).ord < p.ord) curve.push(p);
  if (curve.length > 4000) curve.splice(0, curve.length, ...curve.filter((_, i) => i % 2 === curve.length % 2 || i === curve.length - 1));
}

// Recent values of each job's loss or rate, for the small curves of the fleet.
const sparks = new Map();
function remember(row) {
  const name = row.metrics?.loss != null ? "loss" : "steps_per_s", value = row.metrics?.loss ?? row.steps_per_s ?? null;
  if (value === null || isOver(row)) return;
  const curve = sparks.get(row.job);
  if (curve?.name === name) curve.values.push(value);
  else sparks.set(row.job, { name, values: [value] });
  if (curve?.values.length > 60) curve.values.shift();
}

function listen() {
  source?.close();
  const query = store.route.job ? `?job=${encodeURIComponent(store.route.job)}` : store.route.view === "pool" ? "?pool=1" : "";
  source = new EventSource(`api/v1/stream${query}`);
  for (const kind of ["fleet", "events", "points", ...Object.keys(into)]) {
    source.addEventListener(kind, e => { const began = performance.now(); apply(kind, JSON.parse(e.data)); store.busy_ms += performance.now() - began; changed(); });
  }
  source.addEventListener("state", e => { const s = JSON.parse(e.data); store.up = s.up; store.why = s.why; live(); });
  source.onerror = async () => {
    store.up = false;
    store.why = "no connection to tfe-web";
    live();
    if (source.readyState === EventSource.CLOSED) { // refused: logged out, or too many pages
      store.session = await session().catch(() => store.session);
      if (store.session?.asks_login && !store.session.logged_in) { show(); return; }
      setTimeout(listen, 2000);
    }
  };
}

function live() {
  const sign = document.getElementById("live"), banner = document.getElementById("banner");
  sign.className = `live ${store.up === null ? "" : store.up ? "up" : "down"}`;
  text(sign, store.up === null ? "connecting" : store.up ? "live" : "reconnecting");
  const ill = [...store.health.values()].map(row => row.message);
  if (store.up === false) ill.unshift(`This page may be out of date: ${store.why || "the server does not respond"}. Trying again.`);
  banner.hidden = ill.length === 0;
  text(banner, ill.join(" · "));
}

// Draws at most once a frame, however many events have come.
function changed() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    const began = performance.now();
    live();
    screen?.update();
    if (store.busy_ms === 0) return; // only the seconds have changed
    store.first_ms ??= performance.now();
    store.took.push(store.busy_ms + performance.now() - began);
    if (store.took.length > 500) store.took.shift();
    store.busy_ms = 0;
  });
}

// The nodes that a job wants: its workers, and one node for each ps, chief and evaluator.
function sizeOf(job) {
  const more = (job.ps ?? 0) + (job.chief ? 1 : 0);
  return { min: job.min + more, max: job.max + more, text: job.min === job.max ? `${job.min + more}` : `${job.min + more}:${job.max + more}` };
}

// A member of a job with roles is shown by its replica, as "chief-0".
const placeOr = n => n.state === "member" && n.place ? badge(n.place, `role ${roleOf(n.place)}`) : badge(n.state, BADGES[n.state] ?? "");
const rank = job => job.state === "running" ? 1 : isOver(job) ? 3 : job.waits ? 0 : 2;
const jobLink = (job, words = job) => h("a", { href: `#/job/${encodeURIComponent(job)}` }, words);

// Milliseconds until the last step at the present rate; null if that is unknown.
const etaOf = job => job.state === "running" && job.total && job.step != null && job.steps_per_s > 0 ? Math.max(0, job.total - job.step) / job.steps_per_s * 1000 : null;

// The last report of a job that has succeeded may precede its last step.
const stepOf = job => job.total && job.state === "succeeded" ? job.total : job.step ?? null;

// What an operator should know about a job, in one line: why it failed or waits, or what is wrong while it runs.
function messageOf(job) {
  if (job.waits && !isOver(job)) return job.waits;
  if (job.state === "failed" || job.state === "cancelled") return reasonOf(job);
  return warningsOf(job)[0] ?? (job.retry_in_ms != null ? reasonOf(job) : "");
}

// The reason without the name of the job, which is beside it.
const reasonOf = job => named(job.reason ?? "").replace(`job ${job.job} failed: `, "");

function warningsOf(job) {
  const list = [];
  if (isOver(job)) return list;
  if (job.workers && job.workers_working < job.workers - (job.workers_done ?? 0)) list.push(`${job.workers_working} of ${job.workers} workers train.`);
  if (job.alone) list.push(`${job.alone} of ${job.members} nodes train alone: the script does not use the cluster in TF_CONFIG.`);
  if (job.slow) list.push(`${job.slow} is slow${job.slow_times ? `: ${number(job.slow_times)} times the step time of the others` : ""}.`);
  return list;
}

// --- the fleet ------------------------------------------------------------------------------------------------------

function fleet() {
  const tiles = h("dl", { class: "tiles" }), body = h("tbody"), none = h("p", { class: "empty", hidden: true });
  const filter = h("input", { type: "search", placeholder: "Find a job", "aria-label": "Find a job" });
  const all = h("input", { type: "checkbox", id: "finished" });
  const more = h("div", { class: "more", hidden: true }, h("button", { type: "button", onclick: () => { limit += 200; update(); } }, "Show more"));
  let limit = 100;
  filter.oninput = all.onchange = () => update();
  const heads = ["Job", "State", "Nodes", "Progress", "ETA", "Rate", "Checkpoint", "Message"];
  const table = h("table", { class: "wraps", id: "jobs" }, h("caption", { class: "sr" }, "Jobs"),
    h("thead", {}, h("tr", {}, ...heads.map(t => h("th", { scope: "col" }, t)))), body);
  const row = job => {
    const step = stepOf(job), eta = etaOf(job), saved = isOver(job) ? null : job.saved_ms, curve = sparks.get(job.job);
    return {
      cells: [
        [jobLink(job.job), h("div", { class: "sub" }, `run ${job.run}, epoch ${job.epoch}`)],
        [stateBadge(job)],
        isOver(job) ? ["–"] : [slots(job.members, sizeOf(job)), h("div", { class: "sub once" }, `${job.members} of ${sizeOf(job).text}${job.connected > job.members ? `, ${job.connected} connected` : ""}`)],
        step == null ? ["–"] : job.total ? [share("", step / job.total, percent(step / job.total)), h("div", { class: "sub once" }, `step ${number(step)} of ${number(job.total)}`)] : [`step ${number(step)}`],
        [eta === null ? "–" : h("span", { class: "once" }, span(eta))],
        [job.steps_per_s != null ? h("div", {}, `${number(job.steps_per_s)} steps/s`) : "–", curve ? spark(curve.name, curve.values) : ""],
        [saved ? h("span", { class: "once", title: moment(saved) }, `${ago(saved)} ago`) : "–"],
        [messageOf(job)],
      ],
      heads: heads.map((name, i) => i < 2 ? "" : name), wide: [0, 7],
    };
  };
  const rows = keyed(body, row);

  function update() {
    const list = [...store.jobs.values()], count = f => list.filter(f).length, sum = f => list.reduce((n, j) => n + f(j), 0), day = Date.now() - 86400000;
    tilesOf(tiles, [["Running", count(j => j.state === "running")], ["Waiting", count(j => !isOver(j) && j.state !== "running")],
      ["Failed", count(j => j.state === "failed")], ["Finished", count(j => j.state === "succeeded")], ["Nodes training", sum(j => j.members)], ["Nodes connected", sum(j => j.connected)]]);
    const words = filter.value.trim().toLowerCase();
    const fresh = j => !isOver(j) || j.state === "failed" && (j.ended_ms ?? 0) > day;
    const chosen = list.filter(j => (all.checked || words || fresh(j)) && j.job.toLowerCase().includes(words))
      .sort((a, b) => rank(a) - rank(b) || a.job.localeCompare(b.job));
    rows(chosen.slice(0, limit).map(j => [j.job, j, `${j.told_ms} ${j.saved_ms && !isOver(j) ? ago(j.saved_ms) : ""}`]));
    more.hidden = chosen.length <= limit;
    table.hidden = chosen.length === 0;
    none.hidden = chosen.length > 0;
    const hidden = count(j => !fresh(j));
    text(none, store.up === null ? "Loading …" : list.length === 0 ? "No jobs yet. Submit one here or with tfe-ctl submit, or start tfe-agent SCRIPT on a machine."
      : words ? "No job's name matches." : `No job is running or waiting. ${hidden} ${hidden === 1 ? "job has" : "jobs have"} finished.`);
  }
  const node = h("div", { class: "card" }, h("header", {}, h("h2", {}, "Jobs"), h("label", { class: "check" }, all, "Show finished"), filter,
    h("button", { type: "button", class: "primary", id: "submit", onclick: submit }, "Submit job")), none, h("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Jobs" }, table), more);
  main.replaceChildren(h("h1", { class: "sr" }, "Jobs"), tiles, node, events(null));
  return { update: () => { update(); drawEvents(); } };
}

export function tilesOf(list, pairs) {
  if (list.childElementCount !== pairs.length) list.replaceChildren(...pairs.map(() => h("div", { class: "tile" }, h("dt"), h("dd"))));
  pairs.forEach(([name, value, unit], i) => {
    const tile = list.children[i];
    text(tile.firstChild, name);
    text(tile.lastChild, value);
    if (unit) tile.lastChild.append(h("small", {}, ` ${unit}`));
  });
}

// --- a job ----------------------------------------------------------------------------------------------------------

const BADGES = { member: "ok", spare: "info", waiting: "info", preparing: "warn", importing: "warn", leaving: "warn", suspect: "bad" };

function totals(job) {
  const now = Date.now(), list = [...store.epochs.values()].filter(e => e.run === job?.run);
  let running = 0, standstill = 0, repeated = 0;
  const by_cause = {};
  for (const e of list) {
    const trains = !e.over && !isOver(job) && (e.running_ms ?? 0) > 0;
    running += (e.running_ms ?? 0) + (trains ? Math.max(0, now - e.told_ms) : 0);
    standstill += e.standstill_ms ?? 0;
    repeated += e.lost_steps ?? 0;
    by_cause[e.cause] = (by_cause[e.cause] ?? 0) + (e.standstill_ms ?? 0);
  }
  return { running, standstill, repeated, by_cause, useful: running + standstill > 0 ? running / (running + standstill) : null, epochs: list };
}

// The orders that make sense in the state of a job.
function ordersOf(job) {
  if (job.origin === "submitted") {
    if (job.lingers) return ["cancel"];
    if (isOver(job)) return ["restart"];
    if (job.state === "suspended") return ["resume", "cancel"];
    return [...(job.members > 0 ? ["grow"] : []), "scale", "suspend", "cancel"];
  }
  return isOver(job) ? [] : ["grow", "scale", "cancel"];
}
const LABELS = { grow: "Grow now", scale: "Scale", suspend: "Suspend", resume: "Resume", cancel: "Cancel", restart: "Run again" };

function jobScreen(name) {
  const title = h("h1", {}, name), state = h("span"), sub = h("span", { class: "sub grow" });
  const reason = h("div", { class: "notes", hidden: true });
  const tiles = h("dl", { class: "tiles two" }), body = h("tbody"), epochBody = h("tbody");
  const missing = h("div", { class: "card", hidden: true }, h("div", { class: "empty" }, h("h2", {}, "404: no such job"), h("p", {}, `The server has no job “${name}”. It was never submitted, or was forgotten after its end.`), h("p", {}, h("a", { href: "#/" }, "All jobs"))));
  const acts = h("div", { class: "acts" });
  const head = h("div", { class: "head" }, title, state, sub, acts);
  let sort = { by: "rank", up: true }, limit = 100, acted = "", noted = "";
  const heads = [["name", "Name"], ["state", "State"], ["rank", "Rank"], ["step_ms", "Step time"], ["load", "Utilisation"], ["address", "Address"], ["tensorflow", "Machine"], [null, "Orders"]];
  const header = h("tr", {}, ...heads.map(([key, label]) => h("th", { scope: "col", class: ["rank", "step_ms"].includes(key) ? "num" : "" },
    key ? h("button", { type: "button", onclick: () => { sort = { by: key, up: sort.by === key ? !sort.up : true }; update(); } }, label) : h("span", { class: "sr" }, label))));
  const more = h("div", { class: "more", hidden: true }, h("button", { type: "button", onclick: () => { limit += 200; update(); } }, "Show more"));
  const filter = h("input", { type: "search", placeholder: "Find a node", "aria-label": "Find a node", oninput: () => update() });
  const row = n => ({
    cells: [
      [h("a", { href: `#/job/${encodeURIComponent(name)}/node/${encodeURIComponent(n.node)}` }, n.name || n.node.slice(0, 12)), n.slow ? badge("slow", "warn") : "", n.waits ? h("div", { class: "sub" }, n.waits) : ""],
      [placeOr(n), n.notice ? badge(n.notice, "warn") : ""],
      [n.rank ?? (n.place ? "" : "–")],
      [n.step_ms ? `${number(n.step_ms)} ms` : "–", n.times ? h("div", { class: "sub" }, `${number(n.times)} × the others`) : ""],
      utilisation(n),
      [n.address ? h("span", { class: "mono" }, n.address) : "–"],
      [machine(n)],
      n.state === "leaving" || isOver(store.jobs.get(name) ?? { state: "" }) ? [""]
        : [h("button", { type: "button", class: "small", onclick: () => order("drain", n.node, n) }, "Drain"), " ", h("button", { type: "button", class: "small danger", onclick: () => order("evict", n.node, n) }, "Evict")],
    ],
    heads: ["", "State", "Rank", "Step time", "Utilisation", "Address", "Machine", ""], wide: [0, 4, 7], nums: [2, 3],
  });
  const rows = keyed(body, row);
  const epochHeads = ["Epoch", "Started", "Cause", "Nodes", "Downtime", "Phases", "Trained", "Steps repeated"];
  const epochRow = e => ({
    cells: [[String(e.epoch)], [when(e.started_ms ?? e.detected_ms)], [badge(e.cause.replaceAll("_", " "), e.cause === "start" || e.cause === "joined" ? "info" : e.planned ? "warn" : "bad"), e.blamed ? h("div", { class: "sub" }, e.blamed) : ""],
      [String(e.members)], [e.standstill_ms != null ? `${e.standstill_at_least ? "≥ " : ""}${span(e.standstill_ms)}` : "–"], [phases(e)], [e.over || isOver(store.jobs.get(name) ?? { state: "" }) ? span(e.running_ms) : "now", e.restarts > 0 ? h("div", { class: "sub" }, `${e.restarts} ${e.restarts === 1 ? "restart" : "restarts"} within`) : ""], [e.lost_steps != null ? String(e.lost_steps) : "–"]],
    heads: epochHeads, wide: [5], nums: [3, 7],
  });
  const epochRows = keyed(epochBody, epochRow);
  const time = timeline(), size = members(), curves = series(size.node), prints = logs(name), legend = h("div", { class: "legend" });

  function figures(job) {
    const total = totals(job), step = stepOf(job), eta = etaOf(job), saved = job.saved_ms;
    return [["Progress", step == null ? "–" : job.total ? percent(step / job.total) : number(step), job.total && step != null ? `${number(step)} / ${number(job.total)}` : step != null ? "steps" : ""],
      ...(isOver(job) ? [["Duration", job.ended_ms && total.epochs.length ? span(job.ended_ms - Math.min(...total.epochs.map(e => e.started_ms ?? e.detected_ms ?? job.ended_ms))) : "–"]]
        : [["ETA", eta === null ? "–" : span(eta)], ["Steps/s", job.steps_per_s != null ? number(job.steps_per_s) : "–"]]),
      ["Last checkpoint", saved ? isOver(job) ? clock(saved) : ago(saved) : "–", saved && !isOver(job) ? "ago" : ""],
      ["Nodes", `${job.members}`, `of ${sizeOf(job).text}`],
      ["Goodput", total.useful === null ? "–" : percent(total.useful)], ["Downtime", span(total.standstill)], ["Epochs", `${total.epochs.length}`],
      ["Steps repeated", `${total.repeated}`], ["Restarts left", job.epoch > 0 ? `${job.restarts_left}` : "–"]];
  }

  // Why the job failed or waits, and what is wrong while it runs.
  function notes(job) {
    const list = [];
    if (job.waits && !isOver(job)) {
      const since = job.waited_ms ? ` Waiting for ${span(job.waited_ms + Date.now() - job.told_ms)}.` : "";
      const until = job.waits_up_to_ms ? ` At most ${span(Math.max(0, job.waits_up_to_ms - (Date.now() - job.told_ms)))} more.` : "";
      list.push(["warn", "Waiting: ", `${job.waits}.${since}${until}`]);
    }
    if (job.reason && (isOver(job) || job.retry_in_ms != null)) {
      const retry = job.retry_in_ms != null && !isOver(job) ? ` Next try in ${span(Math.max(0, job.retry_in_ms - (Date.now() - job.told_ms)))}.` : "";
      list.push([job.state === "cancelled" ? "" : "bad", isOver(job) ? job.state === "failed" ? "Failed: " : "Reason: " : "Last failure: ", `${reasonOf(job)}${retry}`]);
    }
    return [...list, ...warningsOf(job).map(w => ["warn", "Warning: ", w])];
  }

  function update() {
    const job = store.jobs.get(name) ?? known.job();
    known.draw();
    missing.hidden = Boolean(job) || store.jobs.size === 0 && store.at === 0;
    acts.hidden = state.hidden = sub.hidden = !job;
    for (const part of parts) part.hidden = !job;
    if (!job) { reason.hidden = true; return; }
    const ended = endOf(store, job);
    state.replaceChildren(stateBadge(job));
    text(sub, `run ${job.run}, epoch ${job.epoch}${ended ? ` · ended ${moment(ended)}` : job.since_ms ? ` · since ${when(job.since_ms)}` : ""}`);
    const verbs = ordersOf(job);
    if (acted !== (acted = verbs.join())) acts.replaceChildren(...verbs.map(verb => h("button", { type: "button", class: verb === "cancel" ? "danger" : "", onclick: () => order(verb, name, store.jobs.get(name)) }, LABELS[verb])));
    const list = notes(job);
    reason.hidden = list.length === 0;
    if (noted !== (noted = JSON.stringify(list))) reason.replaceChildren(...list.map(([css, label, words]) => h("p", { class: css }, h("b", {}, label), named(words))));
    tilesOf(tiles, figures(job));
    const sought = filter.value.trim().toLowerCase();
    const nodes = [...store.nodes.values()].filter(n => `${n.name} ${n.node} ${n.state} ${n.address}`.toLowerCase().includes(sought));
    const value = n => n[sort.by];
    nodes.sort((a, b) => { const x = value(a), y = value(b); const d = x == null ? (y == null ? 0 : 1) : y == null ? -1 : typeof x === "number" ? x - y : String(x).localeCompare(String(y)); return sort.up || x == null || y == null ? d : -d; });
    rows(nodes.slice(0, limit).map(n => [n.node, n, `${n.told_ms} ${isOver(job)}`]));
    more.hidden = nodes.length <= limit;
    text(noNodes, isOver(job) ? "The job has ended; no node works for it." : "No node has joined yet.");
    noNodes.hidden = nodes.length > 0;
    ranks.hidden = nodes.length === 0;
    header.childNodes.forEach((th, i) => heads[i][0] === sort.by ? th.setAttribute("aria-sort", sort.up ? "ascending" : "descending") : th.removeAttribute("aria-sort"));
    const epochs = [...store.epochs.values()].sort((a, b) => b.epoch - a.epoch);
    epochRows(epochs.slice(0, 100).map(e => [e.epoch, e, `${e.told_ms} ${isOver(job)}`]));
    noEpochs.hidden = epochs.length > 0;
    text(counted, store.rows.nodes > store.nodes.size ? `${store.nodes.size} of ${store.rows.nodes} shown` : `${store.nodes.size}`);
    const roles = ROLES.filter(r => r === "worker" ? job.ps || job.chief || job.evaluator : job[r]);
    const words = [...(roles.length ? roles : ["training"]), "standby", "joining", "notice", "lost"];
    if ([...legend.children].map(c => c.className).join() !== words.join()) legend.replaceChildren(...words.map(w => h("span", { class: w }, w)));
    time.draw(store, job);
    keep.hidden = false;
    size.draw(epochs, ended);
    curves.draw(store.points, epochs);
    prints.update(store.nodes, epochs, isOver(job));
  }
  const counted = h("span", { class: "sub" });
  const noNodes = h("p", { class: "empty", hidden: true }), noEpochs = h("p", { class: "empty", hidden: true }, "No epoch has started yet.");
  const keep = h("button", { type: "button", class: "small", hidden: true, onclick: () => save(time.picture(totals(store.jobs.get(name))), "image/svg+xml", `${name}.svg`) }, "Save picture");
  const card = (label, ...content) => h("section", { class: "card" }, h("header", {}, h("h2", {}, label)), ...content);
  const ranks = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Ranks" }, h("table", { class: "wraps", id: "nodes" }, h("caption", { class: "sr" }, "Nodes"), h("thead", {}, header), body));
  const known = submission(name);
  const parts = [tiles,
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Timeline"), legend, keep), h("div", { class: "body" }, time.node)),
    card("Metrics", h("div", { class: "body" }, curves.node)),
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Ranks"), counted, filter), noNodes, ranks, more),
    prints.node,
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Epochs"), h("div", { class: "legend" }, ...["noticed", "stopped", "ready", "written", "first step"].map((w, i) => h("span", { class: `p${i}` }, w)))), noEpochs,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Epochs" }, h("table", { class: "wraps" }, h("caption", { class: "sr" }, "Epochs"), h("thead", {}, h("tr", {}, ...epochHeads.map(t => h("th", { scope: "col", class: ["Nodes", "Steps repeated"].includes(t) ? "num" : null }, t)))), epochBody)))];
  main.replaceChildren(head, missing, reason, ...parts, events(name), known.node);
  return { update: () => { update(); drawEvents(); }, close: () => { curves.close(); size.close(); prints.close(); } };
}

export const machine = n => {
  const parts = [n.instance, n.zone, n.gpus ? `${n.gpus} × ${n.gpu ?? "GPU"}` : null, n.cores ? `${n.cores} cores` : null, n.memory_mib ? `${number(n.memory_mib / 1024)} GiB` : null, n.spot ? "spot" : null].filter(Boolean);
  return parts.length ? h("span", {}, parts.join(" · ")) : h("span", { class: "sub" }, n.pid ? `process ${n.pid}` : "–");
};

// Load average and used memory of a machine, as its agent reports them.
function utilisation(n) {
  const bars = [];
  if (n.load != null && n.cores) bars.push(share("CPU load", n.load / n.cores, `${number(n.load)} / ${n.cores}`));
  if (n.free_mib != null && n.memory_mib) bars.push(share("Memory", 1 - n.free_mib / n.memory_mib, percent(1 - n.free_mib / n.memory_mib)));
  return bars.length ? bars : ["–"];
}

// --- a node ---------------------------------------------------------------------------------------------------------

function nodeScreen(job, id) {
  const title = h("h1", {}, id), sub = h("span", { class: "sub grow mono" }, id), state = h("span"), facts = h("dl", { class: "facts" }), history = h("ul");
  const button = (verb, label, css) => h("button", { type: "button", class: css, onclick: () => order(verb, id, store.nodes.get(id)) }, label);
  main.replaceChildren(h("div", { class: "head" }, title, state, sub, h("div", { class: "acts" }, button("drain", "Drain", ""), button("evict", "Evict", "danger"))),
    h("div", { class: "cols" }, h("section", { class: "card" }, h("header", {}, h("h2", {}, "Details")), h("div", { class: "body" }, facts)),
      h("section", { class: "card" }, h("header", {}, h("h2", {}, "States since this page was opened")), h("div", { class: "body" }, history))),
    events(job, id));
  return { update() {
    const n = store.nodes.get(id), seen = store.seen.get(id);
    if (n) {
      text(title, n.name || id);
      state.replaceChildren(placeOr(n));
      const list = [["Job", job], ["Replica", n.place], ["Rank", n.rank], ["Address", n.address], ["Message", n.waits], ["Step time", n.step_ms && `${number(n.step_ms)} ms`], ["Step time, others = 1", n.times && number(n.times)],
        ["TensorFlow", n.tensorflow], ["Cores", n.cores], ["CPU load", n.load != null && n.cores ? `${number(n.load)} of ${n.cores} cores` : n.load], ["Memory", n.memory_mib && `${number(n.memory_mib / 1024)} GiB${n.free_mib != null ? `, ${number(n.free_mib / 1024)} GiB free` : ""}`], ["GPUs", n.gpus && `${n.gpus} × ${n.gpu}${n.gpu_memory_mib ? `, ${number(n.gpu_memory_mib / 1024)} GiB` : ""}`], ["Cloud", n.cloud], ["Zone", n.zone], ["Machine type", n.instance],
        ["Spot", n.spot == null ? null : n.spot ? "yes" : "no"], ["Standby", n.standby], ["Last notice", n.notice && `${n.notice}${n.notice_at_ms ? `, ${moment(n.notice_at_ms)}` : ""}`],
        ["Agent", n.pid && `process ${n.pid}, guard ${n.guard_pid}`], ["Trainers", n.trainer_pids?.join(", ")], ["State in memory", n.snapshot_epoch != null ? `epoch ${n.snapshot_epoch}, step ${n.snapshot_step}` : null]];
      facts.replaceChildren(...list.filter(([, v]) => v != null && v !== "" && v !== 0).flatMap(([k, v]) => [h("dt", {}, k), h("dd", {}, String(v))]));
    } else if (store.nodes.size > 0 || store.rows.nodes === 0) {
      state.replaceChildren(badge("gone", "bad"));
    }
    history.replaceChildren(...(seen?.spans ?? []).slice(-30).reverse().map(s => h("li", {}, `${moment(s.from)}: ${s.role}`)));
    drawEvents();
  } };
}

// --- events ---------------------------------------------------------------------------------------------------------

let drawEvents = () => {};

// Replaces node ids in a message by the nodes' labels.
function named(says) {
  return says.replace(/(?<= node \S+) \([0-9a-f]{32}\)/g, "").replace(/\b[0-9a-f]{32}\b/g, id => store.nodes.get(id)?.name || store.seen.get(id)?.name || store.events.find(e => e.node === id && e.name)?.name || `${id.slice(0, 12)}…`);
}

// Folds checkpoints of a job between two other events of it into the newest one. Newest first.
function folded(list) {
  const open = new Map(), rows = [];
  for (const e of list) {
    const row = open.get(e.job), isRequest = e.kind === "save" || e.kind === "saved";
    if (e.kind === "checkpoint" && row) row.more++;
    else if (!isRequest) rows.push({ ...e, more: 0 });
    if (e.kind === "checkpoint") { if (!row) open.set(e.job, rows.at(-1)); } else if (!isRequest) open.delete(e.job);
  }
  return rows;
}

function events(job, node) {
  const list = h("ol", { class: "events", tabindex: "0", "aria-label": "Events" }), none = h("p", { class: "empty" });
  const level = h("select", { "aria-label": "Level", onchange: () => draw(true) }, ...["All events", "Warnings and errors", "Errors"].map((w, i) => h("option", { value: String(i) }, w)));
  const sought = h("input", { type: "search", placeholder: "Find in events", "aria-label": "Find in events", oninput: () => draw(true) });
  let last = null;
  function draw(again) {
    const levels = [["info", "warn", "error"], ["warn", "error"], ["error"]][Number(level.value)], words = sought.value.trim().toLowerCase();
    const mine = store.events.filter(e => (!job || e.job === job) && (!node || e.node === node) && levels.includes(e.level));
    const mark = `${mine.length} ${mine.at(-1)?.number}`;
    if (mark === last && !again) return;
    last = mark;
    const rows = folded(mine.slice(-500).reverse()).filter(e => !words || `${e.job ?? ""} ${e.kind} ${named(e.message)}`.toLowerCase().includes(words)).slice(0, 200);
    none.hidden = rows.length > 0;
    list.hidden = rows.length === 0;
    text(none, mine.length > 0 || words || level.value !== "0" ? "No event matches." : "No events yet.");
    list.replaceChildren(...rows.map(e => h("li", { class: e.level }, h("time", { datetime: new Date(e.at_ms).toISOString(), title: moment(e.at_ms) }, when(e.at_ms)), h("i"),
      h("span", {}, h("span", { class: "sr" }, e.level === "info" ? "" : `${e.level}: `), !job && e.job ? jobLink(e.job) : "", !job && e.job ? ": " : "", named(e.message), e.more ? h("span", { class: "sub" }, ` (and ${e.more} earlier ${e.more === 1 ? "checkpoint" : "checkpoints"})`) : ""))));
  }
  drawEvents = () => draw(false);
  return h("section", { class: "card" }, h("header", {}, h("h2", {}, "Events"), sought, level), none, list);
}

// --- where we are ---------------------------------------------------------------------------------------------------

function parse() {
  let parts;
  try {
    parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch { // an incomplete link
    return { view: "fleet" };
  }
  if (parts[0] === "pool") return { view: "pool" };
  if (parts[0] === "job" && parts[1]) return parts[2] === "node" && parts[3] ? { view: "node", job: parts[1], node: parts[3] } : { view: "job", job: parts[1] };
  return { view: "fleet" };
}

function show() {
  const before = store.route;
  document.getElementById("dialog").close(); // its question is about the previous view
  store.route = parse();
  screen?.close?.();
  screen = null;
  drawEvents = () => {};
  const { view, job, node } = store.route;
  const crumbs = view === "pool" ? [["#/pool", "Pool"]] : [["#/", "Jobs"]];
  document.querySelectorAll("header .views a").forEach(a => a.hidden = a.hash === crumbs[0][0]);
  if (job) crumbs.push([`#/job/${encodeURIComponent(job)}`, job]);
  if (node) crumbs.push([location.hash, store.nodes.get(node)?.name || node.slice(0, 12)]);
  document.getElementById("crumbs").replaceChildren(...crumbs.map(([href, name], i) => h("li", {}, h("a", i === crumbs.length - 1 ? { href, "aria-current": "page" } : { href }, name))));
  document.title = [node ?? job, "tfe"].filter(Boolean).join(" · ");
  text(document.getElementById("who"), mayEnd() ? `${store.session.token_role} · Log out` : "Log in");
  if (store.session?.asks_login && !store.session.logged_in) {
    source?.close();
    main.replaceChildren(h("h1", {}, "Log in"), h("p", { class: "empty" }, "This page needs an observer's or admin's token."));
    login(() => start());
    return;
  }
  const is_other = before.job !== job || (before.view === "pool") !== (view === "pool");
  if (is_other || !source || source.readyState === EventSource.CLOSED) {
    if (is_other) {
      for (const map of [store.nodes, store.epochs, store.seen, store.points, store.conditions, store.pool]) map.clear();
      store.events = [];
      store.rows = {};
    }
    listen();
  }
  screen = view === "fleet" ? fleet() : view === "pool" ? pool(main, () => ({ node: events(null), draw: () => drawEvents() })) : view === "job" ? jobScreen(job) : nodeScreen(job, node);
  screen.update();
}

async function start() {
  store.session = await session().catch(() => null);
  source?.close();
  source = null;
  show();
}

document.getElementById("who").onclick = () => mayEnd() ? logout().then(start) : login(start);
const themes = window.matchMedia("(prefers-color-scheme: dark)");
const theme = () => { document.documentElement.dataset.theme = localStorage.getItem("tfe-theme") ?? (themes.matches ? "dark" : "light"); changed(); };
document.getElementById("theme").onclick = () => { localStorage.setItem("tfe-theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark"); theme(); };
themes.onchange = theme;
window.onhashchange = show;
window.onresize = changed;
setInterval(changed, 1000); // durations that go on
window.tfe = store; // for tests and the console
theme();
start();
