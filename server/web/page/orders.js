// server/web/page/orders.js: login, orders with a question before each, and the form that submits a job.
import { h, toast } from "./ui.js";
import { store } from "./app.js";

// Each order of a login carries this CSRF token. Browsers send a cookie to every port of the host, so tfe-web returns the
// token once, to the tab that logs in; other tabs can look, and log in before they give orders.
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

// Asks a question with the given fields. act returns a message for the user, or throws an error.
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
  ask("Log in", "Paste an observer's token to look, or an admin's token to give orders as well. tfe-rdzv has both in its state directory.", [field], "Log in", false, async data => {
    const { csrf, ...session } = await call("api/v1/login", { token: data.get("token").trim() });
    sessionStorage.setItem(MARK, csrf);
    store.session = session;
    then();
    return `Logged in: ${store.session.token_role}.`;
  });
}

const QUESTIONS = {
  drain: n => ["Drain node", `Remove ${n.name || n.node} from its job after a checkpoint? Its agent exits with 0.`, "Drain", false],
  evict: n => ["Evict node", `Remove ${n.name || n.node} from its job at once? Steps since the last checkpoint are repeated.`, "Evict", true],
  grow: (_, name) => ["Grow job", `Include all ready nodes of ${name} now? Steps since the last checkpoint may be repeated.`, "Grow", false],
  suspend: (_, name) => ["Suspend job", `Take all nodes from ${name}? Its scripts save a checkpoint first. The job keeps its place in the queue.`, "Suspend", false],
  resume: (_, name) => ["Resume job", `Give nodes to ${name} again?`, "Resume", false],
  cancel: (_, name) => ["Cancel job", `End job ${name}? Steps since the last checkpoint are lost.`, "Cancel job", true],
  restart: (_, name) => ["Run again", `Start the next run of ${name}?`, "Run again", false],
  scale: (_, name) => ["Scale job", `Number of nodes of ${name}:`, "Scale", false],
};

export function order(verb, name, about) {
  if (store.session?.token_role !== "admin" || !mayEnd()) {
    login(() => { document.getElementById("who").textContent = "admin · Log out"; if (store.session.token_role === "admin") setTimeout(() => order(verb, name, about)); else toast("Orders need an admin's token."); });
    return;
  }
  const [title, words, label, danger] = QUESTIONS[verb](about ?? {}, name);
  const size = (key, value) => h("label", {}, `${key} `, h("input", { name: key, type: "number", min: "1", max: "65536", required: true, value: String(value) }));
  const fields = verb === "scale" ? [size("min", about?.min ?? 1), size("max", about?.max ?? 1)] : [];
  const what = verb === "drain" || verb === "evict" ? "nodes" : "jobs";
  ask(title, words, fields, label, danger, async data => {
    await call(`api/v1/${what}/${encodeURIComponent(name)}/${verb}`, verb === "scale" ? { min: Number(data.get("min")), max: Number(data.get("max")) } : {});
    return `${label}: done.`;
  });
}

const TEMPLATE = `{
  "name": "my-job",
  "workers": {"min": 1, "max": 2},
  "source": {"path": "/srv/train"},
  "command": ["python", "train.py"]
}`;

// The keys of a job file, as its schema describes them.
async function keys() {
  const schema = await call("job-file.schema.json");
  return h("details", {}, h("summary", {}, "Keys of a job file"), h("div", { class: "keys", tabindex: "0", role: "region", "aria-label": "Keys of a job file" },
    h("dl", { class: "facts" }, ...Object.entries(schema.properties).flatMap(([key, value]) => [h("dt", { class: "mono" }, key), h("dd", {}, value.description ?? "")]))));
}

export function submit() {
  if (store.session?.token_role !== "admin" || !mayEnd()) {
    login(() => { document.getElementById("who").textContent = `${store.session.token_role} · Log out`; if (store.session.token_role === "admin") setTimeout(submit); else toast("Orders need an admin's token."); });
    return;
  }
  const field = h("textarea", { name: "file", rows: "12", required: true, spellcheck: "false", "aria-label": "Job file" });
  const help = h("div");
  field.value = TEMPLATE;
  keys().then(list => help.replaceChildren(list)).catch(() => {});
  ask("Submit job", "A job file as JSON, or a TFJob manifest. Files that no node has go with tfe-ctl submit --bundle.", [field, help], "Submit", false, async data => {
    let file;
    try {
      file = JSON.parse(data.get("file"));
    } catch (e) {
      throw new Error(`This is not JSON: ${e.message}`);
    }
    const { name, warning } = await call("api/v1/jobs", file);
    location.hash = `#/job/${encodeURIComponent(name)}`;
    return warning ? `${name} is submitted. ${warning}` : `${name} is submitted.`;
  });
}
