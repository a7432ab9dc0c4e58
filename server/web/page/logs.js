// server/web/page/logs.js: lines that a job's trainers print: as they come, or those of an epoch.
import { h, text, clock, moment } from "./ui.js";

const LINES_MAX = 2000;

export function logs(job) {
  const out = h("pre", { class: "logs", id: "logs", tabindex: "0", role: "log", "aria-live": "off", "aria-label": "Output of the trainers" });
  const note = h("span", { class: "sub", role: "status" });
  const again = () => { if (shown) show(); };
  const rank = h("select", { "aria-label": "Rank", onchange: again }, h("option", { value: "" }, "All ranks"));
  const epoch = h("select", { "aria-label": "Epoch", onchange: () => show() }, h("option", { value: "" }, "Current epoch"));
  const sought = h("input", { type: "search", placeholder: "Search in logs", "aria-label": "Search in logs", oninput: () => search() });
  const button = h("button", { type: "button", class: "small", id: "follow", "aria-pressed": "false", onclick: () => source ? close() : show() }, "Follow");
  const node = h("section", { class: "card" }, h("header", {}, h("h2", {}, "Logs"), note, sought, epoch, rank, button), out);
  let source = null, shown = false, turn = 0, waiting = [], pending = false, ranks = "", epochs = "", over = false;

  const matches = line => !sought.value || line.textContent.toLowerCase().includes(sought.value.toLowerCase());

  function search() {
    let n = 0;
    for (const line of out.children) {
      line.hidden = !matches(line);
      if (!line.hidden) n++;
    }
    if (shown) text(note, sought.value ? `${n} of ${out.childElementCount} lines` : "");
  }

  // Draws at most once in 50 ms. A reader who has scrolled up stays where he is.
  function add(line) {
    line.hidden = !matches(line);
    waiting.push(line);
    if (waiting.length > LINES_MAX) waiting.splice(0, waiting.length - LINES_MAX);
    if (pending) return;
    pending = true;
    setTimeout(() => {
      pending = false;
      const follows = out.scrollHeight - out.scrollTop - out.clientHeight < 40;
      out.append(...waiting.splice(0));
      while (out.childElementCount > LINES_MAX) out.firstChild.remove();
      if (follows) out.scrollTop = out.scrollHeight;
    }, 50);
  }
  const gap = words => add(h("div", { class: "lost" }, words));

  function lines(row) {
    const name = row.name || row.node.slice(0, 12);
    if (row.silent) { gap(`${name} does not respond`); return; }
    if (row.lost) gap(`${row.lost} lines of ${name} are missing here`);
    if (row.tail) gap(`${name} is not connected; last lines of its rank ${row.rank} in epoch ${row.epoch}`);
    if (!row.text && (row.lost || row.tail)) return;
    for (const line of row.text.split("\n")) {
      add(h("div", { class: row.stream === "stderr" ? "err" : null, title: `${name}, epoch ${row.epoch}${row.at_ms ? `, ${moment(row.at_ms)}` : ""}` },
        h("time", {}, row.at_ms ? clock(row.at_ms) : "–"), h("b", { class: `r${row.rank % 6}` }, `[${row.rank}${row.stream === "stderr" ? " err" : ""}]`), line));
    }
  }

  function clear() {
    waiting = [];
    out.replaceChildren();
  }

  const path = query => `api/v1/jobs/${encodeURIComponent(job)}/logs?lines=${query}${rank.value === "" ? "" : `&rank=${rank.value}`}`;

  function show() {
    close();
    clear();
    shown = true;
    if (epoch.value === "") follow();
    else read(epoch.value);
  }

  // The end of what an earlier epoch printed, as far as agents and server still have it.
  async function read(number) {
    const mine = ++turn;
    text(note, "loading");
    try {
      const answer = await fetch(path(`1000&epoch=${number}`), { credentials: "same-origin" }), value = await answer.json();
      if (mine !== turn) return;
      if (!answer.ok) throw new Error(value.detail || value.title);
      value.lines.forEach(lines);
      text(note, value.lines.length === 0 ? `no lines of epoch ${number} are stored` : value.cut ? "output is truncated" : "");
    } catch (e) {
      if (mine === turn) text(note, e.message);
    }
  }

  function follow() {
    const mine = source = new EventSource(path("100&follow=1"));
    text(button, "Stop following");
    button.setAttribute("aria-pressed", "true");
    text(note, "following");
    let opened = false;
    mine.onopen = () => { if (opened) clear(); opened = true; }; // after a reconnect all lines come again
    const on = (name, then) => mine.addEventListener(name, e => { if (mine === source) then(JSON.parse(e.data)); });
    on("lines", lines);
    on("lost", data => gap(`${data.lines} lines are missing here: they came faster than this page reads`));
    on("again", clear);
    on("state", data => text(note, data.up ? "following" : `reconnecting: ${data.why}`));
    on("end", data => close(data.detail || (out.childElementCount + waiting.length > 0 ? "end of the logs" : "no lines are stored")));
    mine.onerror = () => {
      if (mine !== source) return;
      if (mine.readyState === EventSource.CLOSED) close("tfe-web closed the stream: too many log readers, or the login has ended");
      else text(note, "reconnecting");
    };
  }

  function close(why = "") {
    turn++;
    source?.close();
    source = null;
    text(button, over ? "Load" : "Follow");
    button.setAttribute("aria-pressed", "false");
    text(note, why);
  }

  // Replaces the options of a select, and keeps the choice.
  function choose(select, options) {
    const chosen = select.value;
    select.replaceChildren(...options.map(([value, label]) => h("option", { value }, label)));
    select.value = chosen;
    if (select.value !== chosen) select.value = "";
  }

  // The ranks and epochs from which to choose.
  function update(nodes, list, ended) {
    const all = [...nodes.values()], named = new Map(all.filter(n => n.place).map(n => [n.rank, n.place]));
    const numbers = all.map(n => n.rank).filter(r => r != null).sort((a, b) => a - b);
    if (rank.value !== "" && !numbers.includes(Number(rank.value))) numbers.push(Number(rank.value));
    if (ranks !== numbers.join() && document.activeElement !== rank) {
      ranks = numbers.join();
      choose(rank, [["", "All ranks"], ...numbers.slice(0, 512).map(r => [String(r), named.get(r) ?? `Rank ${r}`])]);
    }
    const past = list.slice(ended ? 0 : 1, 50).map(e => e.epoch);
    if (epochs !== past.join() && document.activeElement !== epoch) {
      epochs = past.join();
      choose(epoch, [["", ended ? "Last lines" : "Current epoch"], ...past.map(e => [String(e), `Epoch ${e}`])]);
    }
    if (over !== ended) {
      over = ended;
      if (!source) text(button, over ? "Load" : "Follow");
    }
  }
  return { node, update, close: () => close() };
}
