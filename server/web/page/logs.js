// server/web/page/logs.js: what a job's trainers print, as it comes.
import { h, text, clock, moment } from "./ui.js";

const LINES_MAX = 2000;

export function logs(job) {
  const out = h("pre", { class: "logs", id: "logs", tabindex: "0", role: "log", "aria-live": "off", "aria-label": "What the trainers print" });
  const said = h("span", { class: "sub", role: "status" });
  const rank = h("select", { "aria-label": "Rank", onchange: () => { if (source) follow(); } }, h("option", { value: "" }, "All ranks"));
  const button = h("button", { type: "button", class: "small", id: "follow", "aria-pressed": "false", onclick: () => source ? close() : follow() }, "Follow");
  const node = h("section", { class: "card" }, h("header", {}, h("h2", {}, "Logs"), said, rank, button), out);
  let source = null, waiting = [], pending = false, ranks = "";

  // At most one drawing a frame; who has scrolled up stays there.
  function add(line) {
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
  const note = words => add(h("div", { class: "lost" }, words));

  function lines(row) {
    const name = row.name || row.node.slice(0, 12);
    if (row.silent) { note(`${name} does not answer`); return; }
    if (row.lost) note(`${row.lost} lines of ${name} are missing here`);
    if (row.tail) note(`${name} is gone; the end of its rank ${row.rank} in epoch ${row.epoch}`);
    if (!row.text && (row.lost || row.tail)) return; // an empty line is one, too
    for (const line of row.text.split("\n")) {
      add(h("div", { class: row.stream === "stderr" ? "err" : null, title: `${name}, epoch ${row.epoch}${row.at_ms ? `, ${moment(row.at_ms)}` : ""}` },
        h("time", {}, row.at_ms ? clock(row.at_ms) : "–"), h("b", { class: `r${row.rank % 6}` }, `[${row.rank}${row.stream === "stderr" ? " err" : ""}]`), line));
    }
  }

  function clear() {
    waiting = [];
    out.replaceChildren();
  }

  function follow() {
    close();
    clear();
    const query = rank.value === "" ? "" : `&rank=${rank.value}`;
    const mine = source = new EventSource(`api/v1/jobs/${encodeURIComponent(job)}/logs?follow=1&lines=100${query}`);
    text(button, "Stop following");
    button.setAttribute("aria-pressed", "true");
    text(said, "following");
    let opened = false;
    mine.onopen = () => { if (opened) clear(); opened = true; }; // the browser has come back, and hears all of it again
    const on = (name, then) => mine.addEventListener(name, e => { if (mine === source) then(JSON.parse(e.data)); });
    on("lines", lines);
    on("lost", data => note(`${data.lines} lines are missing here: they came faster than this page reads`));
    on("again", clear);
    on("state", data => text(said, data.up ? "following" : `reconnecting: ${data.why}`));
    on("end", data => close(data.detail || "that was all"));
    mine.onerror = () => {
      if (mine !== source) return;
      if (mine.readyState === EventSource.CLOSED) close("tfe-web does not tell them: too many may be reading, or the login is over");
      else text(said, "reconnecting");
    };
  }

  function close(why = "") {
    source?.close();
    source = null;
    text(button, "Follow");
    button.setAttribute("aria-pressed", "false");
    text(said, why);
  }

  // The ranks that there are to choose from; the choice stays.
  function update(nodes) {
    const list = [...nodes.values()].map(n => n.rank).filter(r => r != null).sort((a, b) => a - b);
    const mark = list.join();
    if (mark === ranks || document.activeElement === rank) return;
    ranks = mark;
    const chosen = rank.value, named = new Map([...nodes.values()].filter(n => n.place).map(n => [n.rank, n.place]));
    if (chosen !== "" && !list.includes(Number(chosen))) list.push(Number(chosen));
    rank.replaceChildren(h("option", { value: "" }, "All ranks"), ...list.slice(0, 512).map(r => h("option", { value: String(r) }, named.get(r) ?? `Rank ${r}`)));
    rank.value = chosen;
  }
  return { node, update, close: () => close() };
}
