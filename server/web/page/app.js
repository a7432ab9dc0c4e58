// server/web/page/app.js: the page. A store that the stream fills, views that draw what has changed, and nothing else.
import { h, text, span, clock, moment, number, percent, badge, slots, spark, keyed, toast } from "./ui.js";
import { phases, series, members } from "./plots.js";
import { timeline, track, save, roleOf, ROLES } from "./timeline.js";
import { order, login, logout, mayEnd, session, history } from "./orders.js";
import { logs } from "./logs.js";
import { pool, conditions } from "./pool.js";

export const store = {
  session: null, up: null, why: "", route: { view: "fleet" }, job: null,
  jobs: new Map(), health: new Map(), nodes: new Map(), epochs: new Map(), events: [], seen: new Map(),
  points: new Map(), conditions: new Map(), queue: new Map(), pool: new Map(), at: 0, rows: {}, first_ms: null, busy_ms: 0, took: [], // what looking costs, for tests
};
const main = document.getElementById("main");
let source = null, screen = null, pending = false;

// --- the stream -----------------------------------------------------------------------------------------------------

const into = { nodes: "nodes", epochs: "epochs", conditions: "conditions", queue: "queue", pool: "pool" };

function apply(kind, data) {
  store.at = data.at_ms;
  store.rows[kind] = data.rows;
  if (kind === "fleet") {
    if (data.whole) { store.jobs.clear(); store.health.clear(); }
    for (const [key, row] of Object.entries(data.set)) {
      row.told_ms = data.at_ms;
      if (key.startsWith("health/")) store.health.set(key, row);
      else { store.jobs.set(row.job, row); remember(row, data.at_ms); }
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
    if (data.whole) { // what went while nobody told this page
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

// The newest point of a curve. What was before it is asked for once.
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

// Rates of a job as they came, for the little curves of the fleet.
const sparks = new Map();
function remember(row, at) {
  const value = row.metrics?.loss ?? row.steps_per_s ?? null;
  if (value === null) return;
  const list = sparks.get(row.job) ?? [];
  list.push(value);
  if (list.length > 60) list.shift();
  sparks.set(row.job, list);
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
    if (source.readyState === EventSource.CLOSED) { // it was refused: logged out, or too many pages
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
  const ill = [...store.health.values()].map(row => row.says);
  if (store.up === false) ill.unshift(`What is shown may be old: ${store.why || "the server is not reached"}. Trying again.`);
  banner.hidden = ill.length === 0;
  text(banner, ill.join(" · "));
}

// At most one drawing a frame, however many events came.
function changed() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    const began = performance.now();
    live();
    screen?.update();
    if (store.busy_ms === 0) return; // nothing was told: the seconds went on
    store.first_ms ??= performance.now();
    store.took.push(store.busy_ms + performance.now() - began);
    if (store.took.length > 500) store.took.shift();
    store.busy_ms = 0;
  });
}

// How many a job may have. Servers and a chief are beside the nodes that min and max count, an evaluator beside all of them.
function sizeOf(job) {
  const more = (job.ps ?? 0) + (job.chief ? 1 : 0);
  return { min: job.min + more, max: job.max + more, text: job.min === job.max ? `${job.min + more}` : `${job.min + more}:${job.max + more}` };
}

// --- the fleet ------------------------------------------------------------------------------------------------------

const STATES = { running: "ok", succeeded: "info", failed: "bad", cancelled: "", suspended: "", waiting: "warn", starting: "warn", restarting: "warn", set_aside: "bad" };
const OVER = new Set(["succeeded", "failed", "cancelled"]);
export const stateBadge = job => badge(job.state.replace("_", " "), STATES[job.state] ?? "");
// A member of a job with roles is shown by its place, "chief-0".
const placeOr = n => n.role === "member" && n.place ? badge(n.place, `role ${roleOf(n.place)}`) : badge(n.role, BADGES[n.role] ?? "");
const rank = job => job.state === "running" ? 1 : OVER.has(job.state) ? 3 : job.waits ? 0 : 2;

function fleet() {
  const tiles = h("dl", { class: "tiles" }), body = h("tbody"), none = h("p", { class: "empty", hidden: true });
  const filter = h("input", { type: "search", placeholder: "Find a job", "aria-label": "Find a job" });
  const all = h("input", { type: "checkbox" });
  const more = h("div", { class: "more", hidden: true }, h("button", { type: "button", onclick: () => { limit += 200; update(); } }, "Show more"));
  let limit = 100;
  filter.oninput = all.onchange = () => update();
  const table = h("table", { class: "wraps", id: "jobs" }, h("caption", { class: "sr" }, "Jobs"),
    h("thead", {}, h("tr", {}, ...["Job", "State", "Nodes", "Steps/s", "", "Waits for"].map(t => h("th", { scope: "col", class: t === "Steps/s" ? "num" : null }, t || h("span", { class: "sr" }, "Lately"))))), body);
  const row = job => ({
    cells: [
      [h("a", { href: `#/job/${encodeURIComponent(job.job)}` }, job.job), h("div", { class: "sub" }, `run ${job.run}, epoch ${job.epoch}`)],
      [stateBadge(job)],
      [slots(job.members, sizeOf(job)), h("div", { class: "sub" }, `${job.members} of ${sizeOf(job).text}${job.connected > job.members ? `, ${job.connected} connected` : ""}`)],
      [job.steps_per_s != null ? number(job.steps_per_s) : "–"],
      [spark(sparks.get(job.job))],
      [job.waits ? h("span", {}, job.waits) : ""],
    ],
    heads: ["", "", "Nodes", "Steps/s", "", "Waits for"], wide: [0, 5], nums: [3],
  });
  const rows = keyed(body, row);

  function update() {
    const list = [...store.jobs.values()], count = f => list.filter(f).length, sum = f => list.reduce((n, j) => n + f(j), 0);
    tilesOf(tiles, [["Train", count(j => j.state === "running")], ["Wait", count(j => !OVER.has(j.state) && j.state !== "running")],
      ["Failed", count(j => j.state === "failed")], ["Over", count(j => OVER.has(j.state))], ["Nodes that train", sum(j => j.members)], ["Nodes connected", sum(j => j.connected)]]);
    const words = filter.value.trim().toLowerCase();
    const chosen = list.filter(j => (all.checked || words || !OVER.has(j.state)) && j.job.toLowerCase().includes(words))
      .sort((a, b) => rank(a) - rank(b) || a.job.localeCompare(b.job));
    rows(chosen.slice(0, limit).map(j => [j.job, j, `${j.told_ms}`]));
    more.hidden = chosen.length <= limit;
    table.hidden = chosen.length === 0;
    none.hidden = chosen.length > 0;
    const hidden = count(j => OVER.has(j.state));
    text(none, store.up === null ? "Asking the server …" : list.length === 0 ? "No jobs yet. Start one with tfe-agent SCRIPT." : words ? "No job has that in its name." : `No job is at work; ${hidden} ${hidden === 1 ? "is" : "are"} over.`);
  }
  const node = h("div", { class: "card" }, h("header", {}, h("h2", {}, "Jobs"), h("label", { class: "check" }, all, "those that are over"), filter), none, table, more);
  main.replaceChildren(h("h1", { class: "sr" }, "Fleet"), tiles, node, events(null));
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
  let running = 0, standstill = 0;
  const by_cause = {};
  for (const e of list) {
    const trains = !e.over && (e.running_ms ?? 0) > 0;
    running += (e.running_ms ?? 0) + (trains ? Math.max(0, now - e.told_ms) : 0);
    standstill += e.standstill_ms ?? 0;
    by_cause[e.cause] = (by_cause[e.cause] ?? 0) + (e.standstill_ms ?? 0);
  }
  return { running, standstill, by_cause, useful: running + standstill > 0 ? running / (running + standstill) : null, epochs: list };
}

function jobScreen(name) {
  const title = h("h1", {}, name), state = h("span"), sub = h("span", { class: "sub grow" }), waits = h("p", { class: "waits", hidden: true });
  const tiles = h("dl", { class: "tiles" }), body = h("tbody"), epochBody = h("tbody");
  const why = h("p", { class: "empty", hidden: true }, "There is no job of this name on the server.");
  const act = (verb, label, css, extra) => h("button", { type: "button", class: css, onclick: () => order(verb, name, extra?.()) }, label);
  const acts = h("div", { class: "acts" }, act("grow", "Grow now", ""), act("scale", "Scale", "", () => store.jobs.get(name)), act("cancel", "Cancel", "danger"));
  const head = h("div", { class: "head" }, title, state, sub, acts);
  let sort = { by: "rank", up: true }, limit = 100;
  const heads = [["name", "Name"], ["role", "State"], ["rank", "Rank"], ["step_ms", "Step time"], ["address", "Address"], ["tensorflow", "Machine"], [null, "Orders"]];
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
      [n.address ? h("span", { class: "mono" }, n.address) : "–"],
      [machine(n)],
      [h("button", { type: "button", class: "small", onclick: () => order("drain", n.node, n) }, "Drain"), " ", h("button", { type: "button", class: "small danger", onclick: () => order("evict", n.node, n) }, "Evict")],
    ],
    heads: ["", "State", "Rank", "Step time", "Address", "Machine", ""], wide: [0, 6], nums: [2, 3],
  });
  const rows = keyed(body, row);
  const epochRow = e => ({
    cells: [[String(e.epoch)], [clock(e.started_ms ?? e.detected_ms)], [badge(e.cause.replace("_", " "), e.cause === "start" || e.cause === "joined" ? "info" : e.planned ? "warn" : "bad"), e.blamed ? h("div", { class: "sub" }, e.blamed) : ""],
      [String(e.nodes)], [e.standstill_ms != null ? `${e.standstill_at_least ? "≥ " : ""}${span(e.standstill_ms)}` : "–"], [phases(e)], [e.over ? span(e.running_ms) : "now", e.restarts > 0 ? h("div", { class: "sub" }, `${e.restarts} ${e.restarts === 1 ? "restart" : "restarts"} within`) : ""], [e.lost_steps != null ? String(e.lost_steps) : "–"]],
    heads: ["Epoch", "Began", "Cause", "Nodes", "Standstill", "Phases", "Ran", "Steps again"], wide: [5], nums: [3, 7],
  });
  const epochRows = keyed(epochBody, epochRow);
  const time = timeline(), size = members(), curves = series(size.node), prints = logs(name), legend = h("div", { class: "legend" });

  function update() {
    const job = store.jobs.get(name);
    const known = Boolean(job);
    wanted.draw();
    why.hidden = known || wanted.known() || store.jobs.size === 0 && store.at === 0;
    for (const part of trains) part.hidden = !known;
    if (!known) return;
    state.replaceChildren(stateBadge(job));
    text(sub, `run ${job.run}, epoch ${job.epoch}${job.slow ? ` · slow: ${job.slow}` : ""}`);
    waits.hidden = !job.waits;
    if (job.waits) {
      const since = job.waits_since_ms ? ` For ${span(job.waits_since_ms + Date.now() - job.told_ms)} so far.` : "";
      const until = job.waits_until_ms ? ` At most ${span(Math.max(0, job.waits_until_ms - (Date.now() - job.told_ms)))} more.` : "";
      waits.replaceChildren(h("b", {}, "Waits: "), `${job.waits}.${since}${until}`);
    }
    const total = totals(job);
    tilesOf(tiles, [["Nodes", `${job.members}`, `of ${sizeOf(job).text}`], ["Epochs", `${total.epochs.length}`, `in run ${job.run}`], ["Useful time", total.useful === null ? "–" : percent(total.useful)],
      ["Stood still", span(total.standstill)], ["Steps/s", job.steps_per_s != null ? number(job.steps_per_s) : "–"], ["Step", job.step != null ? number(job.step) : "–", job.total ? `of ${number(job.total)}` : ""],
      ["Restarts left", `${job.restarts_left}`]]);
    const sought = filter.value.trim().toLowerCase();
    const list = [...store.nodes.values()].filter(n => `${n.name} ${n.node} ${n.role} ${n.address}`.toLowerCase().includes(sought));
    const value = n => n[sort.by];
    list.sort((a, b) => { const x = value(a), y = value(b); const d = x == null ? (y == null ? 0 : 1) : y == null ? -1 : typeof x === "number" ? x - y : String(x).localeCompare(String(y)); return sort.up || x == null || y == null ? d : -d; });
    rows(list.slice(0, limit).map(n => [n.node, n, n.told_ms]));
    more.hidden = list.length <= limit;
    header.childNodes.forEach((th, i) => heads[i][0] === sort.by ? th.setAttribute("aria-sort", sort.up ? "ascending" : "descending") : th.removeAttribute("aria-sort"));
    const epochs = [...store.epochs.values()].sort((a, b) => b.epoch - a.epoch);
    epochRows(epochs.slice(0, 100).map(e => [e.epoch, e, `${e.told_ms}`]));
    text(counted, store.rows.nodes > store.nodes.size ? `${store.nodes.size} of ${store.rows.nodes} shown` : `${store.nodes.size}`);
    const roles = ROLES.filter(r => r === "worker" ? job.ps || job.chief || job.evaluator : job[r]);
    const words = [...(roles.length ? roles : ["training"]), "standby", "joining", "notice", "lost"];
    if ([...legend.children].map(c => c.className).join() !== words.join()) legend.replaceChildren(...words.map(w => h("span", { class: w }, w)));
    time.draw(store, job);
    keep.hidden = false; // something is seen
    size.draw(epochs);
    curves.draw(store.points, epochs);
  }
  const counted = h("span", { class: "sub" });
  const keep = h("button", { type: "button", class: "small", hidden: true, onclick: () => save(time.picture(totals(store.jobs.get(name))), "image/svg+xml", `${name}.svg`) }, "Save picture");
  const card = (label, ...content) => h("section", { class: "card" }, h("header", {}, h("h2", {}, label)), ...content);
  const wanted = conditions(name);
  const trains = [acts, tiles,
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Timeline"), legend, keep), h("div", { class: "body" }, time.node)),
    card("Steps, metrics and nodes", h("div", { class: "body" }, curves.node)),
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Nodes"), counted, filter), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Nodes" }, h("table", { class: "wraps", id: "nodes" }, h("caption", { class: "sr" }, "Nodes"), h("thead", {}, header), body)), more),
    h("section", { class: "card" }, h("header", {}, h("h2", {}, "Epochs"), h("div", { class: "legend" }, ...["noticed", "stopped", "ready", "written", "first step"].map((w, i) => h("span", { class: `p${i}` }, w)))),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Epochs" }, h("table", { class: "wraps" }, h("caption", { class: "sr" }, "Epochs"), h("thead", {}, h("tr", {}, ...["Epoch", "Began", "Cause", "Nodes", "Standstill", "Phases", "Ran", "Steps again"].map(t => h("th", { scope: "col", class: ["Nodes", "Steps again"].includes(t) ? "num" : null }, t)))), epochBody))),
    prints.node];
  main.replaceChildren(head, why, waits, wanted.node, ...trains.slice(1), events(name));
  return { update: () => { update(); prints.update(store.nodes); drawEvents(); }, close: () => { curves.close(); size.close(); prints.close(); } };
}

export const machine = n => {
  const parts = [n.instance, n.zone, n.gpus ? `${n.gpus} × ${n.gpu ?? "GPU"}` : null, n.cores ? `${n.cores} cores` : null, n.spot ? "spot" : null].filter(Boolean);
  return parts.length ? h("span", {}, parts.join(" · ")) : h("span", { class: "sub" }, n.pid ? `process ${n.pid}` : "–");
};

// --- a node ---------------------------------------------------------------------------------------------------------

function nodeScreen(job, id) {
  const title = h("h1", {}, id), sub = h("span", { class: "sub grow mono" }, id), state = h("span"), facts = h("dl", { class: "facts" }), history = h("ul");
  const button = (verb, label, css) => h("button", { type: "button", class: css, onclick: () => order(verb, id, store.nodes.get(id)) }, label);
  main.replaceChildren(h("div", { class: "head" }, title, state, sub, h("div", { class: "acts" }, button("drain", "Drain", ""), button("evict", "Evict", "danger"))),
    h("div", { class: "cols" }, h("section", { class: "card" }, h("header", {}, h("h2", {}, "Facts")), h("div", { class: "body" }, facts)),
      h("section", { class: "card" }, h("header", {}, h("h2", {}, "As this page saw it")), h("div", { class: "body" }, history))),
    events(job, id));
  return { update() {
    const n = store.nodes.get(id), seen = store.seen.get(id);
    if (n) {
      text(title, n.name || id);
      state.replaceChildren(placeOr(n));
      const list = [["Job", job], ["Place", n.place], ["Rank", n.rank], ["Address", n.address], ["Waits for", n.waits], ["Step time", n.step_ms && `${number(n.step_ms)} ms`], ["Beside the others", n.times && `${number(n.times)} ×`],
        ["TensorFlow", n.tensorflow], ["Cores", n.cores], ["Memory", n.memory_mib && `${number(n.memory_mib / 1024)} GiB`], ["Load", n.load], ["GPUs", n.gpus && `${n.gpus} × ${n.gpu}`], ["Cloud", n.cloud], ["Zone", n.zone], ["Machine type", n.instance],
        ["Spot", n.spot == null ? null : n.spot ? "yes" : "no"], ["Standby", n.standby], ["Last notice", n.notice && `${n.notice}${n.notice_at_ms ? `, ${moment(n.notice_at_ms)}` : ""}`],
        ["Agent", n.pid && `process ${n.pid}, guard ${n.guard_pid}`], ["Trainers", n.trainer_pids?.join(", ")], ["State kept of", n.kept_epoch != null ? `epoch ${n.kept_epoch}, step ${n.kept_step}` : null]];
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

// Sentences name nodes by id where nothing else is sure; people know them by their labels.
function named(says) {
  return says.replace(/\b[0-9a-f]{32}\b/g, id => store.nodes.get(id)?.name || store.seen.get(id)?.name || store.events.find(e => e.node === id && e.name)?.name || `${id.slice(0, 12)}…`);
}

function events(job, node) {
  const list = h("ol", { class: "events", tabindex: "0", "aria-label": "Events" }), none = h("p", { class: "empty" }, "Nothing has happened yet.");
  let last = null;
  drawEvents = () => {
    const mine = store.events.filter(e => (!job || e.job === job) && (!node || e.node === node)).slice(-200).reverse();
    const mark = `${mine.length} ${mine[0]?.number}`;
    if (mark === last) return;
    last = mark;
    none.hidden = mine.length > 0;
    list.hidden = mine.length === 0;
    list.replaceChildren(...mine.map(e => h("li", { class: e.level }, h("time", { datetime: new Date(e.at_ms).toISOString(), title: moment(e.at_ms) }, clock(e.at_ms)), h("i"),
      h("span", {}, h("span", { class: "sr" }, e.level === "info" ? "" : `${e.level}: `), !job && e.job ? h("a", { href: `#/job/${encodeURIComponent(e.job)}` }, `${e.job}: `) : "", named(e.says)))));
  };
  return h("section", { class: "card" }, h("header", {}, h("h2", {}, "Events")), list, none);
}

// --- where we are ---------------------------------------------------------------------------------------------------

function parse() {
  let parts;
  try {
    parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch { // a link that was cut off
    return { view: "fleet" };
  }
  if (parts[0] === "pool") return { view: "pool" };
  if (parts[0] === "job" && parts[1]) return parts[2] === "node" && parts[3] ? { view: "node", job: parts[1], node: parts[3] } : { view: "job", job: parts[1] };
  return { view: "fleet" };
}

function show() {
  const before = store.route;
  document.getElementById("dialog").close(); // it asked about what was shown before
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
  text(document.getElementById("who"), mayEnd() ? `${store.session.role} · Log out` : "Log in");
  if (store.session?.asks_login && !store.session.logged_in) {
    source?.close();
    main.replaceChildren(h("h1", {}, "Log in"), h("p", { class: "empty" }, "This page asks for an observer's or admin's token."));
    login(() => start());
    return;
  }
  const is_other = before.job !== job || (before.view === "pool") !== (view === "pool");
  if (is_other || !source || source.readyState === EventSource.CLOSED) {
    if (is_other) {
      for (const map of [store.nodes, store.epochs, store.seen, store.points, store.conditions, store.queue, store.pool]) map.clear();
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
setInterval(changed, 1000); // what counts by itself: how long something has lasted
window.tfe = store; // for the curious, and for tests
theme();
start();
