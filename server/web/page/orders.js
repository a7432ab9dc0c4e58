// server/web/page/orders.js: who looks, and what is ordered, with a question before it.
import { h, toast } from "./ui.js";
import { store } from "./app.js";

// The mark that orders of this login carry. A cookie goes to every port of the host, so the server gives the mark once, to the
// tab that logs in; other tabs look, and log in before they order.
const MARK = "tfe-mark";
const mark = () => sessionStorage.getItem(MARK);
export const mayEnd = () => !!(store.session?.logged_in && mark());

async function call(path, body) {
  const answer = await fetch(path, {
    method: body === undefined ? "GET" : "POST", credentials: "same-origin",
    headers: { ...(body !== undefined && { "Content-Type": "application/json" }), ...(mark() && { "X-CSRF-Token": mark() }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.detail || value.title);
  return value;
}

export const session = () => call("api/v1/session");
export const history = async (job, name) => (await call(`api/v1/jobs/${encodeURIComponent(job)}/series?name=${encodeURIComponent(name)}`)).points;
export const logout = () => call("api/v1/logout", {}).then(() => sessionStorage.removeItem(MARK)).catch(e => toast(e.message));

// Asks with the given fields; act returns what to say, or throws what is wrong.
function ask(title, words, fields, label, danger, act) {
  const dialog = document.getElementById("dialog");
  const fault = h("p", { class: "fault", role: "alert", hidden: true });
  const form = h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, title), words ? h("p", {}, words) : "", ...fields, fault,
    h("div", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), h("button", { type: "submit", class: danger ? "danger" : "primary" }, label)));
  form.onsubmit = async event => {
    event.preventDefault();
    const send = form.querySelector("[type=submit]");
    if (send.disabled) return; // a second click orders nothing twice
    send.disabled = true;
    fault.hidden = true;
    try {
      const said = await act(new FormData(form));
      dialog.close();
      if (said) toast(said);
    } catch (e) {
      fault.hidden = false;
      fault.textContent = e.message;
    } finally {
      send.disabled = false;
    }
  };
  dialog.replaceChildren(form);
  if (!dialog.open) dialog.showModal();
}

export function login(then) {
  const field = h("textarea", { name: "token", rows: "3", required: true, autocomplete: "off", spellcheck: "false", "aria-label": "Token", placeholder: "tfe1_admin_…" });
  ask("Log in", "Paste an observer's token to look, or an admin's to give orders, too. tfe-rdzv keeps both in its state directory.", [field], "Log in", false, async data => {
    const { csrf, ...session } = await call("api/v1/login", { token: data.get("token").trim() });
    sessionStorage.setItem(MARK, csrf);
    store.session = session;
    then();
    return `Logged in: ${store.session.role}.`;
  });
}

const QUESTIONS = {
  drain: n => ["Drain", `Take ${n.name || n.node} out of its job in an orderly way? Its scripts are asked to save first; its agent exits 0.`, "Drain", false],
  evict: n => ["Evict", `Take ${n.name || n.node} out of its job at once, saved or not?`, "Evict", true],
  grow: (_, name) => ["Grow", `Take all ready nodes of ${name} in now? What was done since the last checkpoint may be done again.`, "Grow", false],
  suspend: (_, name) => ["Suspend", `Take all nodes from ${name}? Its scripts are asked to save first; it keeps its place in the queue.`, "Suspend", false],
  resume: (_, name) => ["Resume", `Let ${name} have nodes again?`, "Resume", false],
  cancel: (_, name) => ["Cancel", `End job ${name}, whether it runs or waits? What was not saved is lost.`, "Cancel the job", true],
  restart: (_, name) => ["Run again", `Begin the next run of ${name}?`, "Run again", false],
  scale: (_, name) => ["Scale", `Nodes of ${name} from now on:`, "Scale", false],
};

export function order(verb, name, about) {
  if (store.session?.role !== "admin" || !mayEnd()) {
    login(() => { document.getElementById("who").textContent = "admin · Log out"; if (store.session.role === "admin") setTimeout(() => order(verb, name, about)); else toast("Orders take an admin's token."); });
    return;
  }
  const [title, words, label, danger] = QUESTIONS[verb](about ?? {}, name);
  const size = (key, value) => h("label", {}, `${key} `, h("input", { name: key, type: "number", min: "1", max: "65536", required: true, value: String(value) }));
  const fields = verb === "scale" ? [size("min", about?.min ?? 1), size("max", about?.max ?? 1)] : [];
  const what = verb === "drain" || verb === "evict" ? "nodes" : "jobs";
  ask(title, words, fields, label, danger, async data => {
    await call(`api/v1/${what}/${encodeURIComponent(name)}/${verb}`, verb === "scale" ? { min: Number(data.get("min")), max: Number(data.get("max")) } : {});
    return `${label}: ordered.`;
  });
}
