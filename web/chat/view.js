/**
 * view.js -- the page's elements.  Text from anywhere enters by textContent and nothing else.
 */

/** @typedef {import("./conversation.js").Turn} Turn */
/** @typedef {import("./tasks.js").Task} Task */

export const $ = (id) => document.getElementById(id);

/**
 * @param {string} tag
 * @param {{[name: string]: any}} [properties] of the element
 * @param {...(Node|string)} children
 */
export function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Shows an element only while there is a text for it. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
  element.hidden = text === "";
}

const pretty = (value) => (value === undefined ? "" : JSON.stringify(value, null, 2));

/** A text that grows: each time only what is new goes into the document. */
class GrowingText {
  #node = document.createTextNode("");
  #length = 0;
  #epoch = -1;

  constructor(parent) {
    parent.append(this.#node);
  }

  show(text, epoch) {
    if (epoch === this.#epoch && text.length === this.#length) return;
    if (epoch === this.#epoch && text.length > this.#length) {
      this.#node.appendData(text.slice(this.#length));
    } else {
      this.#node.data = text;
    }
    this.#length = text.length;
    this.#epoch = epoch;
  }
}

/** Children that are made once, in order, and updated from then on. */
class Cards {
  #made = [];
  #epoch = -1;

  /** @param {Element} parent @param {(item: any) => {element: Element, show(item: any): void}} build */
  constructor(parent, build) {
    this.parent = parent;
    this.build = build;
  }

  show(items, epoch) {
    if (epoch !== this.#epoch) {
      this.#made = [];
      this.parent.replaceChildren();
      this.#epoch = epoch;
    }
    items.forEach((item, at) => {
      if (!this.#made[at]) {
        this.#made[at] = this.build(item);
        this.parent.append(this.#made[at].element);
      }
      this.#made[at].show(item);
    });
    this.parent.hidden = items.length === 0;
  }
}

function toolCard(tool) {
  const state = make("span", { className: "state" });
  const output = make("pre");
  const element = make(
    "details",
    { className: "tool" },
    make("summary", {}, make("code", { textContent: tool.name }), state),
    make("pre", { textContent: pretty(tool.arguments) }),
    output,
  );
  const show = ({ output: text, is_error }) => {
    say(state, text === undefined ? "running" : is_error ? "failed" : "done");
    element.classList.toggle("bad", Boolean(is_error));
    say(output, text ?? "");
  };
  return { element, show };
}

function inboxCard() {
  const element = make("p", { className: "inbox" });
  return { element, show: (text) => say(element, text) };
}

/** A question to the user, with the means to answer it. */
function inputCard(input, answerWith) {
  const outcome = make("p", { className: "outcome", hidden: true });
  const form = make("form", { className: "row" });
  const element = make(
    "section",
    { className: "question" },
    make("p", { className: "prompt", textContent: input.prompt ?? "" }),
    form,
    outcome,
  );
  element.dataset.inputId = input.input_id;
  if (input.tool) {
    form.before(make("pre", { textContent: `${input.tool} ${pretty(input.arguments)}` }));
  }

  const answer = async (value) => {
    for (const control of form.elements) control.disabled = true;
    say(outcome, "");
    try {
      await answerWith(input, value);
    } catch (refusal) {
      say(outcome, refusal.message);
      for (const control of form.elements) control.disabled = false;
    }
  };
  if (input.kind === "approval") {
    const approve = make("button", { type: "button", textContent: "Approve" });
    const decline = make("button", { type: "button", textContent: "Decline", className: "quiet" });
    approve.onclick = () => answer(true);
    decline.onclick = () => answer(false);
    form.append(approve, decline);
  } else {
    const field = make("input", { type: "text", ariaLabel: "Your answer", autocomplete: "off" });
    form.append(field, make("button", { type: "submit", textContent: "Answer" }));
    form.onsubmit = () => answer(field.value);
  }
  form.addEventListener("submit", (event) => event.preventDefault());

  const show = ({ closed, answer: given }) => {
    form.hidden = closed;
    element.classList.toggle("open", !closed);
    if (closed) say(outcome, outcomeOf(input.kind, given));
  };
  return { element, show };
}

function outcomeOf(kind, answer) {
  if (answer === null || answer === undefined) return "Not answered";
  if (kind === "approval") return answer === true ? "Approved" : "Declined";
  return `Answered: ${answer}`;
}

/** What a task says and does; `actions` are cancel(task) and respond(task, input, answer). */
class TaskBody {
  #answer;
  #thinking;
  #tools;
  #inbox;
  #inputs;

  constructor(actions) {
    this.thinking = make("details", { className: "thinking" }, make("summary", {}, "Thinking"));
    this.toolList = make("div", { className: "cards" });
    this.inboxList = make("div", { className: "cards" });
    this.answer = make("div", { className: "answer" });
    this.inputList = make("div", { className: "cards" });
    this.progress = make("progress", { max: 1, ariaLabel: "Progress" });
    this.note = make("span", { className: "note" });
    this.progressRow = make("div", { className: "row progress" }, this.progress, this.note);
    this.marks = make("p", { className: "marks" });
    this.cancel = make("button", {
      type: "button",
      className: "quiet cancel",
      textContent: "Cancel",
    });
    this.cancel.onclick = () => actions.cancel(this.task);
    this.elements = [
      this.thinking,
      this.toolList,
      this.inboxList,
      this.answer,
      this.inputList,
      this.progressRow,
      this.marks,
    ];

    this.#answer = new GrowingText(this.answer);
    this.#thinking = new GrowingText(
      this.thinking.appendChild(make("div", { className: "thoughts" })),
    );
    this.#tools = new Cards(this.toolList, toolCard);
    this.#inbox = new Cards(this.inboxList, inboxCard);
    this.#inputs = new Cards(this.inputList, (input) =>
      inputCard(input, (of, value) => actions.respond(this.task, of, value)),
    );
  }

  /** @param {Task|null} task @param {{content: string, partial: boolean}|null} reply */
  show(task, reply) {
    this.task = task;
    const heard = Boolean(task?.heard);
    const epoch = task?.epoch ?? 0;
    this.#thinking.show(heard ? task.thinking : "", epoch);
    this.thinking.hidden = !heard || task.thinking === "";
    this.#tools.show(heard ? task.tools : [], epoch);
    this.#inbox.show(heard ? task.inbox : [], epoch);
    this.#inputs.show(heard ? task.inputs : [], epoch);
    if (heard) this.#answer.show(task.answer, epoch);
    else this.#answer.show(reply?.content ?? "", -2);
    this.#showProgress(task);
    this.#showMarks(task, reply);
  }

  #showProgress(task) {
    const progress = task?.progress ?? (task?.summary.progress || null);
    this.progressRow.hidden = !task?.live || progress === null;
    if (this.progressRow.hidden) return;
    this.progress.value = progress;
    say(this.note, task.note);
  }

  #showMarks(task, reply) {
    const marks = [];
    if (task?.live) {
      if (task.cancelRequested) marks.push("stopping…");
      else if (task.status === "pending") marks.push("queued");
    } else if (task?.status === "cancelled") {
      marks.push("cancelled");
    } else if (task?.status === "failed") {
      marks.push(task.error ? `failed: ${task.error.message}` : "failed");
    }
    const ended = task ? !task.live : true;
    const said = task?.heard ? task.answer !== "" : Boolean(reply?.content);
    const broken = task ? task.status !== "completed" : reply?.partial;
    if (ended && said && broken) marks.push("partial answer");
    if (task?.pruned) marks.push("the beginning is no longer kept");
    say(this.marks, marks.join(" · "));
    this.cancel.hidden = !task?.live;
    this.cancel.disabled = Boolean(task?.cancelRequested);
  }
}

/** One turn of the conversation: what was asked and what came of it. */
export class TurnView {
  #body;

  constructor(actions) {
    this.asked = make("div", { className: "asked" });
    this.notice = make("div", { className: "notice" });
    this.#body = new TaskBody(actions);
    this.refusal = make("p", { className: "marks" });
    this.again = make("button", { type: "button", className: "quiet", textContent: "Try again" });
    this.again.onclick = () => actions.askAgain(this.turn.ask);
    this.told = make("div", { className: "told" }, ...this.#body.elements, this.#body.cancel);
    this.element = make(
      "article",
      { className: "turn" },
      this.asked,
      this.notice,
      this.told,
      this.refusal,
      this.again,
    );
  }

  /** @param {Turn} turn */
  show(turn) {
    this.turn = turn;
    const { task, ask, reply } = turn;
    say(this.asked, turn.input ?? "");
    say(this.notice, turn.notice ?? "");
    this.told.hidden = !task && !reply;
    this.#body.show(task, reply);
    say(this.refusal, ask ? (ask.error ? `Not sent: ${ask.error.message}` : "sending…") : "");
    this.again.hidden = !ask?.error;
    if (ask) return;
    this.element.dataset.taskId = turn.key;
    this.element.dataset.status = task?.status ?? statusOf(reply);
  }
}

/** As far as a message tells, for a task older than those listed. */
function statusOf(reply) {
  if (!reply) return "pending";
  return reply.partial ? "failed" : "completed";
}

/** A background task or a child, as a line that opens. */
export class TaskRow {
  #body;

  constructor(actions) {
    this.name = make("span", { className: "name" });
    this.state = make("span", { className: "state" });
    this.meter = make("progress", { max: 1, ariaLabel: "Progress" });
    this.#body = new TaskBody(actions);
    this.element = make(
      "details",
      { className: "task" },
      make("summary", {}, this.name, this.meter, this.state),
      make("div", { className: "told" }, ...this.#body.elements, this.#body.cancel),
    );
    this.element.ontoggle = () => this.element.open && actions.details(this.task);
  }

  /** @param {Task} task */
  show(task) {
    this.task = task;
    const { name, description, agent, type } = task.summary;
    const waits = task.live && task.inputs.some((input) => !input.closed);
    say(this.name, description || name || task.input || agent || type || "");
    say(this.state, waits ? "asks" : task.status);
    this.meter.hidden = !task.live;
    this.meter.value = task.progress ?? task.summary.progress ?? 0;
    this.element.dataset.taskId = task.id;
    this.element.dataset.status = task.status;
    if (waits && !this.waited) this.element.open = true;
    this.waited = waits;
    this.#body.show(task, null);
  }
}

/** A conversation's line at the side. */
export class ConversationLink {
  constructor() {
    this.title = make("span");
    this.running = make("span", { className: "running" });
    this.link = make("a", {}, this.title, this.running);
    this.element = make("li", {}, this.link);
  }

  show({ conversation_id: id, title, running = 0 }) {
    this.element.dataset.conversationId = id;
    this.link.href = `#${id}`;
    say(this.title, title || id);
    say(this.running, running > 0 ? String(running) : "");
    this.running.title = `${running} running`;
  }
}

/**
 * Puts views into a parent in the given order, makes those that are missing and removes the rest.
 * @param {Element} parent
 * @param {Map<string, {element: Element, show(item: any): void}>} views by key; kept by the caller
 * @param {{key: string}[]} items
 * @param {Set<string>|null} dirty keys of those to show again; null is all
 */
export function arrange(parent, views, items, dirty, build) {
  const keys = new Set(items.map(({ key }) => key));
  for (const [key, view] of views) {
    if (keys.has(key)) continue;
    view.element.remove();
    views.delete(key);
  }
  items.forEach((item, at) => {
    const made = !views.has(item.key);
    if (made) views.set(item.key, build());
    const view = views.get(item.key);
    if (made || !dirty || dirty.has(item.key)) view.show(item.value ?? item);
    if (parent.children[at] !== view.element) {
      parent.insertBefore(view.element, parent.children[at] ?? null);
    }
  });
}

const STATE_TEXT = {
  connecting: () => "Connecting",
  live: () => "Live",
  waiting: (seconds) => `Reconnecting in ${seconds} s`,
  offline: () => "Offline",
  closed: (seconds, reason) => reason,
};

/** The state of the connection, and the way to hurry it. */
export class ConnectionView {
  #ticking = 0;

  constructor() {
    this.element = $("connection");
    this.text = $("connection-text");
    this.button = $("reconnect");
  }

  /** @param {import("./connection.js").Connection} connection */
  show(connection) {
    clearInterval(this.#ticking);
    const { state } = connection;
    this.element.dataset.state = state;
    this.button.hidden = state === "live" || state === "connecting";
    this.button.textContent = state === "closed" ? "Try again" : "Now";
    const tell = () => {
      const seconds = Math.max(0, Math.ceil((connection.retryAt - Date.now()) / 1000));
      const text = STATE_TEXT[state](seconds, connection.reason);
      if (this.text.textContent !== text) this.text.textContent = text;
    };
    tell();
    if (state === "waiting") this.#ticking = setInterval(tell, 250);
  }
}
