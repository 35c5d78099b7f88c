/**
 * chat.js -- the page: one connection, the conversations at the side, the open one in the middle.
 *
 * The conversation's id stands in the URL's hash, so that a reload, or a second tab, comes back to
 * it.  After each welcome the page says again what it wants to see, and resumes each task behind
 * the last event that it has.
 */

import { Connection } from "./connection.js";
import { Conversation } from "./conversation.js";
import { Tasks } from "./tasks.js";
import { $, arrange, ConnectionView, ConversationLink, make, TaskRow, TurnView } from "./view.js";

const GUEST = "holdfast.guest"; // in localStorage: {owner, token}
const ASKS = "holdfast.asks"; // in sessionStorage: asked, and not known to have started
const PAGE = 50;
const NEAR_END = 80; // px: so close to the end, the view follows the text

// ---- what the browser keeps

function kept(storage, name) {
  try {
    return JSON.parse(storage.getItem(name));
  } catch {
    return null; // storage is forbidden, or somebody else wrote there
  }
}

function keep(storage, name, value) {
  try {
    if (value === null) storage.removeItem(name);
    else storage.setItem(name, JSON.stringify(value));
  } catch {
    // Storage is full or forbidden: then a reload is a new guest.
  }
}

const guest = {
  get: () => kept(localStorage, GUEST),
  set: (value) => keep(localStorage, GUEST, value),
};

/** A UUID, also where the page does not come from a secure context. */
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

function idInHash() {
  const id = location.hash.slice(1);
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(id) ? id : null;
}

// ---- state

let owner = null;
/** @type {Conversation|null} */
let current = null;
/** Summaries by id. */
const conversations = new Map();
/** @type {import("./conversation.js").Ask[]} */
let asks = kept(sessionStorage, ASKS) ?? [];

const url = new URL("v1/ws", document.baseURI);
url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
const connection = new Connection(url.href, guest, { onLine, onWelcome, onState });
const tasks = new Tasks((request) => connection.send(request), taskChanged);

// ---- drawing: once a frame, and only what has changed

const connectionView = new ConnectionView();
const turnViews = new Map();
const rowViews = new Map();
const linkViews = new Map();
let dirty = new Set(); // keys; null is everything
let frame = 0;

function draw(key) {
  if (key === undefined) dirty = null;
  else dirty?.add(key);
  frame ||= requestAnimationFrame(drawNow);
}

function drawNow() {
  frame = 0;
  const changed = dirty;
  dirty = new Set();
  const thread = $("thread");
  const follows = thread.scrollHeight - thread.scrollTop - thread.clientHeight < NEAR_END;

  const turns = current?.turns() ?? [];
  arrange($("turns"), turnViews, turns, changed, () => new TurnView(actions));
  drawOthers(changed);
  $("empty").hidden = turns.length > 0;
  drawTitle();

  if (follows) thread.scrollTop = thread.scrollHeight;
}

function drawOthers(changed) {
  const rows = [...tasks.all()]
    .filter(({ summary }) => summary.type === "background" || summary.type === "child")
    .filter(({ summary }) => summary.conversation_id === current?.id)
    .sort((a, b) => (a.id < b.id ? 1 : -1))
    .map((task) => ({ key: task.id, value: task }));
  arrange($("others-list"), rowViews, rows, changed, () => new TaskRow(actions));
  $("others").hidden = rows.length === 0;
  const running = rows.filter(({ value }) => value.live).length;
  $("others-count").textContent = running > 0 ? `${running} running` : `${rows.length}`;
  const asking = rows.some(({ value }) => value.inputs.some((input) => !input.closed));
  if (asking && !drawOthers.asking) $("others").open = true;
  drawOthers.asking = asking;
}

function drawConversations() {
  const rows = [...conversations.values()]
    .sort((a, b) => b.updated_at - a.updated_at)
    .map((each) => ({ key: each.conversation_id, value: each }));
  arrange($("conversations"), linkViews, rows, null, () => new ConversationLink());
  for (const [id, { link }] of linkViews) link.ariaCurrent = id === current?.id ? "page" : null;
  drawTitle();
}

function drawTitle() {
  const title = conversations.get(current?.id)?.title;
  $("title").textContent = title || (current ? "Conversation" : "New conversation");
  document.title = title ? `${title} – Holdfast` : "Holdfast";
}

function taskChanged(task) {
  const { conversation_id } = task.summary;
  if (conversation_id !== undefined && conversation_id !== current?.id) return;
  current?.takeTask(task);
  draw(task.id);
}

// ---- from the gateway

function onState() {
  connectionView.show(connection);
}

function onWelcome(line) {
  if (owner !== null && owner !== line.owner) forgetEverything();
  owner = line.owner;
  showAgents(line.agents ?? []);
  connection.send({ type: "watch" });
  connection.send({ type: "conversations", limit: PAGE });
  openOnGateway();
}

function forgetEverything() {
  conversations.clear();
  tasks.clear();
  if (current) current = newConversation(current.id);
  drawConversations();
  draw();
}

/** By the type of the line; `request` is what it answers, if anything. */
const handlers = {
  event: (line) => tasks.event(line),
  task: ({ task }) => tasks.meet(task),
  resumed: (line) => tasks.resumed(line),
  caught_up: (line) => tasks.caughtUp(line),
  conversation: showConversation,
  message: ({ conversation_id, message }) => {
    if (conversation_id === current?.id) draw(current.takeMessage(message).key);
  },
  history: ({ messages, more }, request) => {
    if (request?.conversation_id !== current?.id) return;
    const { scrollHeight, scrollTop } = $("thread");
    for (const message of messages) current.takeMessage(message);
    $("earlier").hidden = !more;
    draw();
    requestAnimationFrame(() => {
      $("thread").scrollTop = scrollTop + $("thread").scrollHeight - scrollHeight;
    });
  },
  conversations: ({ conversations: listed, more }, request) => {
    if (!request?.before) conversations.clear();
    for (const each of listed) conversations.set(each.conversation_id, each);
    $("older").hidden = !more;
    drawConversations();
  },
  conversation_changed: ({ conversation, deleted }) => {
    const id = conversation.conversation_id;
    if (deleted) conversations.delete(id);
    else conversations.set(id, conversation);
    if (deleted && id === current?.id) lookAtNone();
    drawConversations();
  },
  started: (line) => taskChanged(tasks.started(line)),
  error: (line, request) => {
    if (request?.type === "resume") tasks.refused(request, line);
    else if (line.retry_after_ms && LOOKING.has(request?.type)) {
      setTimeout(() => lookAgain(request), line.retry_after_ms);
    }
  },
};

const LOOKING = new Set(["watch", "conversations", "open"]);

/** Repeats a request that the gateway had no room for, if it is still wanted. */
function lookAgain(request) {
  const { conversation_id } = request;
  if (conversation_id === undefined || conversation_id === current?.id) connection.send(request);
}

function onLine(line, request) {
  handlers[line.type]?.(line, request);
}

function showConversation({ conversation_id, messages, tasks: summaries }) {
  if (conversation_id !== current?.id) return;
  current.takeNewest(messages);
  $("earlier").hidden = messages.length < PAGE;
  for (const summary of summaries) current.takeTask(tasks.meet(summary));
  for (const task of tasks.all()) {
    if (task.summary.conversation_id === current.id && isUnfinished(task)) tasks.resume(task);
  }
  draw();
}

/** Whether events are still to come, or were missed, or are the only place of the whole answer. */
function isUnfinished(task) {
  if (task.heard) return task.ending === null;
  return task.live || Boolean(task.summary.output_truncated);
}

// ---- to the gateway

/** Lines of the conversation that is looked at, from now on. */
function openOnGateway() {
  if (!current) return;
  connection.send({ type: "open", conversation_id: current.id, limit: PAGE, follow: true });
}

function look(id) {
  if (id === (current?.id ?? null)) return;
  if (current) leave(current);
  current = id === null ? null : newConversation(id);
  $("earlier").hidden = true;
  closeMenu();
  drawConversations();
  draw();
  openOnGateway();
}

function lookAtNone() {
  history.pushState(null, "", location.pathname + location.search);
  look(null);
}

function newConversation(id) {
  const conversation = new Conversation(id);
  for (const one of asks) if (one.conversationId === id) conversation.takeAsk(one);
  return conversation;
}

function leave({ id }) {
  connection.send({ type: "close", conversation_id: id });
  for (const task of tasks.all()) {
    if (!task.live || task.summary.conversation_id !== id) continue;
    connection.send({ type: "unsubscribe", conversation_id: id, task_id: task.id });
  }
  tasks.clear();
}

function ask(message) {
  if (!current) {
    history.pushState(null, "", `#${newId()}`);
    look(idInHash());
  }
  const agent = $("agent").value || undefined;
  const made = { key: newId(), conversationId: current.id, askedAt: Date.now(), message, agent };
  asks.push(made);
  say(made);
  $("thread").scrollTop = $("thread").scrollHeight;
}

/** Asks, over as many connections as it takes; the key makes one task of it. */
async function say(one) {
  one.error = null;
  asksChanged(one);
  try {
    await connection.ensure({
      type: "chat",
      conversation_id: one.conversationId,
      message: one.message,
      agent: one.agent,
      request_key: one.key,
      when_busy: "enqueue",
    });
    asks = asks.filter((other) => other !== one);
  } catch (refusal) {
    one.error = refusal;
  }
  asksChanged(one);
}

function asksChanged(one) {
  keep(
    sessionStorage,
    ASKS,
    asks.filter(({ error }) => error === null),
  );
  if (one.conversationId !== current?.id) return;
  if (asks.includes(one)) current.takeAsk(one);
  else current.dropAsk(one);
  draw(`ask:${one.key}`);
}

const idsOf = (task) => ({ task_id: task.id, conversation_id: task.summary.conversation_id });

const actions = {
  askAgain: say,
  cancel: async (task) => {
    task.summary = { ...task.summary, cancel_requested_at: Date.now() };
    taskChanged(task);
    try {
      await connection.ensure({ type: "cancel", ...idsOf(task), tree: true });
    } catch {
      task.summary = { ...task.summary, cancel_requested_at: null };
      taskChanged(task);
    }
  },
  respond: (task, input, answer) =>
    connection.ensure({ type: "respond", ...idsOf(task), input_id: input.input_id, answer }),
  details: (task) => {
    if (!task.heard && !task.resuming) tasks.resume(task);
  },
};

// ---- the page's own controls

function showAgents(agents) {
  const select = $("agent");
  const chosen = select.value || agents.find((agent) => agent.default)?.name;
  select.replaceChildren(
    ...agents.map(({ name, description }) =>
      make("option", { value: name, textContent: name, title: description ?? "" }),
    ),
  );
  if (agents.some(({ name }) => name === chosen)) select.value = chosen;
  select.hidden = agents.length < 2;
}

function fitMessage() {
  const field = $("message");
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}

function submit() {
  const field = $("message");
  if (field.value.trim() === "") return;
  ask(field.value);
  field.value = "";
  fitMessage();
  field.focus();
}

function openMenu() {
  document.body.classList.add("menu");
  $("shade").hidden = false;
  $("menu").ariaExpanded = "true";
  $("new").focus();
}

function closeMenu() {
  document.body.classList.remove("menu");
  $("shade").hidden = true;
  $("menu").ariaExpanded = "false";
}

$("composer").onsubmit = (event) => {
  event.preventDefault();
  submit();
};
$("message").oninput = fitMessage;
$("message").onkeydown = (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  submit();
};
$("new").onclick = () => {
  lookAtNone();
  closeMenu();
  $("message").focus();
};
$("older").onclick = () => {
  const oldest = [...conversations.values()].sort((a, b) => a.updated_at - b.updated_at)[0];
  connection.send({ type: "conversations", limit: PAGE, before: oldest.conversation_id });
};
$("earlier").onclick = () =>
  connection.send({
    type: "history",
    conversation_id: current.id,
    limit: PAGE,
    before: current.oldestMessage,
  });
$("reconnect").onclick = () => connection.retry();
$("menu").onclick = () => (document.body.classList.contains("menu") ? closeMenu() : openMenu());
$("shade").onclick = closeMenu;
addEventListener("keydown", ({ key }) => {
  if (key !== "Escape" || $("shade").hidden) return;
  closeMenu();
  $("menu").focus();
});
addEventListener("hashchange", () => look(idInHash()));
addEventListener("popstate", () => look(idInHash()));

look(idInHash());
drawConversations();
for (const one of asks) say(one);
connection.start();
