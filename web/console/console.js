// console.js -- the operator's console: one event stream of what the gateway does, and orders to it.
//
// The address that `holdfast admin console` prints has a token in its fragment, which is changed for the secret of this
// tab, once. At the gateway itself the token is the operator's own, typed here. Either goes with each request as a
// bearer; there is no cookie that another page could use.

import { countersOf, rateOf, sinceText, sizeText } from "/console/figures.js";

const SECRET = "holdfast-console";
const AGAIN_MS = 2000;
const KEPT = 60; // seconds of a line

/** @param {string} id */
const find = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

let secret = sessionStorage.getItem(SECRET);
let watching = new AbortController();
/** @type {{ at: number, counters: Map<string, number> } | null} */
let before = null;
/** The counters when this page was opened: what they say of then is not news. @type {Map<string, number> | null} */
let first = null;
/** The counters of each gateway as last told: one that is silent for a moment has not begun anew. */
const countersByNode = new Map();
const lines = new Map();

// ---------------------------------------------------------------- requests

function ask(path, options = {}) {
  const headers = { Authorization: `Bearer ${secret}`, ...options.headers };
  if (options.body) headers["Content-Type"] = "application/json";
  return fetch(path, { ...options, headers, credentials: "omit", cache: "no-store" });
}

async function order(words, path, options) {
  const reply = await ask(path, options).catch(() => null);
  const body = await reply?.json().catch(() => null);
  say(reply?.ok ? words : `Not done: ${body?.error?.message ?? "the gateway does not answer"}`);
}

const post = (words, path, body) => order(words, path, { method: "POST", body: JSON.stringify(body) });

let saidTimer = 0;
function say(text) {
  find("said").textContent = text;
  clearTimeout(saidTimer);
  saidTimer = setTimeout(() => (find("said").textContent = ""), 6000);
}

/** Asks before what cannot be taken back. */
function sure(question) {
  const dialog = /** @type {HTMLDialogElement} */ (find("ask"));
  dialog.querySelector("p").textContent = question;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) =>
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }),
  );
}

// ---------------------------------------------------------------- tables

/** A cell: text, or [text, class], or an element. */
function cellOf(value) {
  const cell = document.createElement("td");
  if (value instanceof Node) cell.append(value);
  else if (Array.isArray(value)) {
    cell.textContent = value[0];
    cell.className = value[1];
    cell.title = value[0];
  } else cell.textContent = String(value ?? "");
  return cell;
}

/** The buttons of a row; its name makes each one's its own for who only hears them. */
function buttons(row, ...all) {
  const box = document.createDocumentFragment();
  for (const [name, act, isBad] of all) {
    const button = document.createElement("button");
    button.textContent = name;
    button.setAttribute("aria-label", `${name} ${row}`);
    button.className = isBad ? "bad" : "";
    button.addEventListener("click", act);
    box.append(button);
  }
  return box;
}

/** Rows keep their elements by key, so that a button which is about to be pressed stays where it is. */
function show(id, heads, rows) {
  const table = find(id);
  table.tHead?.rows.length || head(table, heads);
  const body = table.tBodies[0] ?? table.createTBody();
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  for (const [key, cells, acts, name = key] of rows) {
    let row = old.get(key);
    if (!row) {
      row = body.insertRow();
      row.dataset.key = key;
    }
    old.delete(key);
    const made = cells.map(cellOf);
    made.forEach((cell, at) => {
      const shown = row.cells[at];
      if (!shown) row.append(cell);
      else if (shown.textContent !== cell.textContent || shown.className !== cell.className) shown.replaceWith(cell);
    });
    if (acts) showActs(row, made.length, name, acts);
  }
  for (const row of old.values()) {
    if (row.contains(document.activeElement)) table.parentElement?.focus(); // else the next key begins at the top
    row.remove();
  }
  table.hidden = rows.length === 0;
}

/** A row may gain or lose buttons: a silent gateway takes no order. */
function showActs(row, at, name, acts) {
  const labels = acts.map(([label]) => label).join();
  const shown = row.cells[at];
  if (shown && row.dataset.acts === labels) return;
  row.dataset.acts = labels;
  if (shown?.contains(document.activeElement)) row.closest("table").parentElement?.focus();
  shown?.remove();
  row.append(cellOf(buttons(name, ...acts)));
}

function head(table, heads) {
  const row = table.createTHead().insertRow();
  for (const name of heads) {
    const cell = document.createElement(name ? "th" : "td");
    if (name) cell.scope = "col";
    cell.textContent = name;
    row.append(cell);
  }
}

// ---------------------------------------------------------------- what is shown

const RATES = [
  ["Connections", (state) => state.n_connections],
  ["Tasks", (state) => state.n_tasks],
  ["Events", "holdfast_events_total", "/s"],
  ["Requests", "holdfast_requests_total", "/s"],
  ["Sent", "holdfast_sent_bytes_total", "B/s"],
  ["Commits", "holdfast_store_commits_total", "/s"],
  ["Tasks ended", "holdfast_tasks_ended_total", "/s"],
  ["Resumes", "holdfast_resume_total", "/s"],
];
const HITS = ["holdfast_limit_hits_total", "holdfast_refusals_total", "holdfast_request_errors_total"];

function showRate(name, value, unit) {
  const key = `rate-${name.replace(" ", "-").toLowerCase()}`;
  let line = lines.get(key);
  if (!line) {
    const box = document.createElement("div");
    box.className = "rate";
    box.id = key;
    const title = document.createElement("p");
    title.textContent = name;
    const number = document.createElement("strong");
    const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    picture.setAttribute("viewBox", `0 0 ${KEPT - 1} 20`);
    picture.setAttribute("preserveAspectRatio", "none");
    picture.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    picture.append(path);
    box.append(title, number, picture);
    find("rates").append(box);
    line = { values: [], number, path };
    lines.set(key, line);
  }
  line.values.push(value);
  if (line.values.length > KEPT) line.values.shift();
  line.number.textContent = unit === "B/s" ? `${sizeText(value)}/s` : `${Math.round(value * 10) / 10}${unit}`;
  const most = Math.max(...line.values, 1);
  const from = KEPT - line.values.length;
  line.path.setAttribute(
    "d",
    line.values.map((v, at) => `${at ? "L" : "M"}${from + at} ${(19 - (18 * v) / most).toFixed(1)}`).join(""),
  );
}

function showRates(state, counters) {
  for (const [name, source, unit = ""] of RATES) {
    const value = typeof source === "function" ? source(state) : rateOf(source, before, { at: state.at, counters });
    showRate(name, value, unit);
  }
}

function showNodes(state) {
  show(
    "nodes",
    ["Name", "Phase", "Ready", "Version", "Slots", "Port", "Process", ""],
    state.nodes.map((node) => [
      node.name,
      [
        node.name,
        node.phase,
        node.silent ? ["silent", "bad"] : node.pid === undefined ? "" : node.ready ? "yes" : ["no", "bad"],
        node.version,
        node.slots ?? "",
        node.port ?? "",
        node.pid ?? "",
      ],
      // A silent one hears nothing, and a front goes with its home.
      node.pid === undefined || node.front ? [] : [["Drain", () => drain(node), true]],
    ]),
  );
}

async function drain(node) {
  if (await sure(`Stop ${node.name}? It takes no new tasks, waits for those that must end, and ends.`))
    await post(`${node.name} stops`, "/v1/admin/drain", node.slots === undefined ? {} : { node: node.name });
}

function showLimits(state) {
  show(
    "limits",
    ["Limit", "Node", "Now", "Most", "Used"],
    state.limits.map(({ limit, node = "", now, max }) => {
      const used = max ? Math.round((100 * now) / max) : 0;
      return [`${limit} ${node}`, [limit, node, now, max, used >= 80 ? [`${used} %`, "bad"] : `${used} %`]];
    }),
  );
}

async function revoke(owner) {
  if (await sure(`Lock ${owner} out? Every token of that owner is refused until you lift it.`))
    await post(`${owner} is locked out`, "/v1/admin/revoke", { owner }).then(showRevoked);
}

function showConnections(state) {
  find("n-connections").textContent = state.n_connections;
  const seen = new Map();
  show(
    "connections",
    ["Owner", "Node", "From", "At", "Since", "Silent", "Follows", "State", ""],
    state.connections.map((c) => {
      const plain = `${c.owner} ${c.node ?? ""} ${c.number ?? `${c.path} ${c.since}`}`;
      seen.set(plain, (seen.get(plain) ?? 0) + 1);
      const how = !c.known ? "not welcomed" : c.blocked ? ["takes nothing", "bad"] : "open";
      return [
        `${plain} ${seen.get(plain)}`,
        [
          [c.owner || "—", "name"],
          c.node ?? "",
          c.from,
          c.path,
          sinceText(state.at - c.since),
          c.silent_ms === undefined ? "" : sinceText(c.silent_ms),
          c.follows,
          how,
        ],
        c.owner
          ? [
              ["Kick", () => post(`${c.owner} is disconnected`, "/v1/admin/kick", { owner: c.owner })],
              ["Revoke", () => revoke(c.owner), true],
            ]
          : [],
      ];
    }),
  );
}

async function cancel(task) {
  if (!(await sure(`Cancel the task of ${task.owner}?`))) return;
  const path = `/v1/conversations/${encodeURIComponent(task.conversation_id)}/tasks/${task.task_id}?tree=true`;
  const owner = encodeURIComponent(task.owner);
  await order("It stops", path, { method: "DELETE", headers: { "Holdfast-Owner": owner } });
}

function showTasks(state) {
  find("n-tasks").textContent = state.n_tasks;
  const rows = state.tasks.sort((a, b) => (a.task_id < b.task_id ? 1 : -1));
  show(
    "tasks",
    ["Owner", "Node", "Agent", "Status", "Runs", "Events", "Bytes", "Readers", "Task", ""],
    rows.map((t) => [
      t.task_id,
      [
        [t.owner, "name"],
        t.node ?? "",
        t.name ? `${t.agent}: ${t.name}` : t.agent,
        t.cancel_requested_at ? "stopping" : t.waiting_for ? "waits for an answer" : t.status,
        t.started_at ? sinceText(state.at - t.started_at) : "",
        t.events,
        sizeText(t.bytes),
        t.readers,
        [`${t.conversation_id}/${t.task_id}`, "name"],
      ],
      [["Cancel", () => cancel(t), true]],
      `${t.task_id} of ${t.owner}`,
    ]),
  );
}

function showHits(counters) {
  const rows = [];
  for (const [key, now] of counters) {
    if (!now || !HITS.some((name) => key.startsWith(`${name}{`))) continue;
    const news = now - (first?.get(key) ?? 0);
    const what = key.replace(/^holdfast_|_total(?=\{)/g, "").replace("{", " ").replace(/["}]/g, "");
    rows.push([key, [what, now, news > 0 ? [`+${news}`, "bad"] : ""]]);
  }
  show("hits", ["What", "Since the start", "Since you look"], rows);
}

async function showWorkers() {
  const reply = await ask("/v1/admin/workers"); // not there without workers in the configuration
  const body = reply.ok ? await reply.json() : { workers: [] };
  find("workers-section").hidden = body.workers.length === 0;
  const turn = (worker, way) => () =>
    post(`${worker}: ${way}`, `/v1/admin/workers/${way}`, { worker }).then(showWorkers);
  show(
    "workers",
    ["Worker", "Runs", "Most", "Instances", "State", ""],
    body.workers.map((w) => [
      w.worker,
      [w.worker, w.runs, w.most, w.instances.length, w.draining ? "draining" : "takes runs"],
      [
        ["Drain", turn(w.worker, "drain"), true],
        ["Undrain", turn(w.worker, "undrain")],
      ],
    ]),
  );
}

async function showRevoked() {
  const body = await (await ask("/v1/admin/revocations")).json();
  const lift = (owner) => () => post(`${owner} may come back`, "/v1/admin/unrevoke", { owner }).then(showRevoked);
  show(
    "revoked",
    ["Owner", "Until", ""],
    body.revocations.map(({ owner, until }) => [
      owner,
      [[owner, "name"], until ? new Date(until).toLocaleString() : "lifted"],
      [["Lift", lift(owner)]],
    ]),
  );
}

/** The sum of all gateways. */
function allCounters(state) {
  for (const { node, metrics } of [{ node: "", metrics: state.metrics }, ...(state.others ?? [])])
    countersByNode.set(node, countersOf(metrics));
  const sum = new Map();
  for (const counters of countersByNode.values())
    for (const [key, value] of counters) sum.set(key, (sum.get(key) ?? 0) + value);
  return sum;
}

function showState(state) {
  const counters = allCounters(state);
  first ??= counters;
  showRates(state, counters);
  before = { at: state.at, counters };
  showNodes(state);
  showLimits(state);
  showConnections(state);
  showTasks(state);
  showHits(counters);
  find("cut").textContent = state.is_cut ? "Not all rows are shown: search for an owner." : "";
}

// ---------------------------------------------------------------- the stream

function live(state, text) {
  find("live").dataset.state = state;
  find("live").textContent = text;
}

async function read(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (data) showState(JSON.parse(data.slice(6)));
    }
    live("live", "Live");
  }
}

/** Until the filter changes, or the secret is refused. */
async function watch() {
  watching.abort();
  const mine = (watching = new AbortController());
  while (!mine.signal.aborted) {
    try {
      const owner = encodeURIComponent(/** @type {HTMLInputElement} */ (find("owner")).value);
      const reply = await ask(`/v1/admin/watch?owner=${owner}`, { signal: mine.signal });
      if ([401, 403, 404].includes(reply.status)) return signIn("The token is not an operator's, or has expired.");
      if (reply.ok) {
        find("sign-in").hidden = true;
        find("board").hidden = false;
        await Promise.all([showWorkers(), showRevoked(), read(reply)]);
      }
    } catch {
      // the gateway is gone, or the filter has changed
    }
    if (mine.signal.aborted) return;
    live("lost", "Not connected; trying again");
    before = null;
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

function signIn(why) {
  watching.abort();
  sessionStorage.removeItem(SECRET);
  find("board").hidden = true;
  find("sign-in").hidden = false;
  find("why").textContent = why;
  live("lost", "Not signed in");
}

function enter(token) {
  secret = token;
  sessionStorage.setItem(SECRET, token);
  void watch();
}

/** The fragment goes at once: neither the history nor a bookmark shall have it. */
async function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  history.replaceState(null, "", location.pathname);
  if (!token) return secret ? watch() : signIn("");
  const reply = await fetch("/login", { method: "POST", body: JSON.stringify({ token }) }).catch(() => null);
  const body = await reply?.json().catch(() => null);
  if (reply?.ok) enter(body.secret);
  else if (secret) await watch();
  else signIn("This address was used already. Start the console again for another one.");
}

find("sign-in").querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = /** @type {HTMLInputElement} */ (find("token"));
  enter(field.value.trim());
  field.value = "";
});
let typing = 0;
find("owner").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(watch, 300);
});
void takeToken();
