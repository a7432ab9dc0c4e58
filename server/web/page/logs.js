// server/web/page/logs.js: trainers' output, as it comes.
import { h, clock } from "/ui.js";
import { store } from "/app.js";

const LINES_MAX = 2000;

export function logs(job, node) {
  const out = h("pre", { class: "logs", tabindex: "0", role: "log", "aria-label": "Trainers' output", "aria-live": "off" });
  const rank = h("input", { type: "number", min: "0", placeholder: "rank", "aria-label": "Rank, empty for all" });
  const toggle = h("button", { type: "button", class: "small" }, "Follow");
  let source = null;
  const add = (css, lead, words) => {
    const bottom = out.scrollHeight - out.scrollTop - out.clientHeight < 30;
    out.append(h("span", { class: css }, lead ? h("b", { class: `r${lead.rank % 6}` }, `[${lead.rank}]`) : "", words, "\n"));
    while (out.childElementCount > LINES_MAX) out.firstChild.remove();
    if (bottom) out.scrollTop = out.scrollHeight;
  };
  const end = () => { source?.close(); source = null; toggle.textContent = "Follow"; };
  toggle.onclick = () => {
    if (source) { end(); return; }
    out.replaceChildren();
    const query = new URLSearchParams({ follow: "1", lines: "200", ...(rank.value !== "" && { rank: rank.value }), ...(node && { node }) });
    source = new EventSource(`/api/v1/jobs/${encodeURIComponent(job)}/logs?${query}`);
    toggle.textContent = "Stop";
    source.addEventListener("lines", e => {
      const row = JSON.parse(e.data);
      if (row.lost > 0) add("lost", row, `… ${row.lost} lines are missing here …`);
      if (row.text) for (const line of row.text.split("\n")) add(row.stream === "stderr" ? "err" : "", row, line);
    });
    source.addEventListener("ended", e => { add("lost", null, JSON.parse(e.data).why); end(); });
    source.onerror = () => { if (source?.readyState === EventSource.CLOSED) { add("lost", null, "the output cannot be had"); end(); } };
  };
  const watch = new MutationObserver(() => { if (!out.isConnected) { end(); watch.disconnect(); } });
  setTimeout(() => watch.observe(document.getElementById("main"), { childList: true }));
  return h("section", { class: "card" }, h("header", {}, h("h2", {}, "Output"), rank, toggle), out);
}
