// ag_ui.test.mjs -- AG-UI's own HttpAgent, as it comes from the registry.

import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";
import { holdsFor, until } from "./support/cases.mjs";

/** With the connect() of docs/faces.md: the stock class leaves that to the application. */
export class ThreadAgent extends HttpAgent {
  #last = null;

  constructor(config) {
    super(config);
    this.fetch = (url, init) => fetch(url, init).then((response) => this.#listen(response));
  }

  connect(input) {
    const headers = { ...this.headers, ...(this.#last && { "last-event-id": this.#last }) };
    const url = `${this.url}/${encodeURIComponent(input.threadId)}`;
    this.abortController = new AbortController();
    const { signal } = this.abortController;
    return transformHttpEventStream(runHttpRequest(() => this.fetch(url, { headers, signal })));
  }

  /** Remembers the id of the last event that came whole.  (The stock client's cancel of a broken body is a rejection
   * that nobody handles: here it is quiet.) */
  #listen(response) {
    if (!response.ok) return response;
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    const read = async () => {
      const { done, value } = await reader.read();
      const events = (text + decoder.decode(value, { stream: !done })).split("\n\n");
      text = events.pop();
      for (const event of events) this.#last = /^id: (.*)$/m.exec(event)?.[1] ?? this.#last;
      return { done, value };
    };
    const cancel = () => reader.cancel().catch(() => {});
    return { ok: true, status: response.status, headers: response.headers, body: { getReader: () => ({ read, cancel }) } };
  }
}

export const textOf = (agent) => {
  const asked = agent.messages.findLastIndex(({ role }) => role === "user");
  const said = agent.messages.slice(asked + 1).filter(({ role }) => role === "assistant");
  return said.map(({ content }) => content ?? "").join("");
};

class Answer {
  constructor(agent, run) {
    let end = { end: "cut" };
    this.text = () => textOf(agent);
    const outcomes = { success: "completed", cancelled: "cancelled", interrupt: "asks" };
    const listener = {
      onRunFinishedEvent: ({ outcome }) => void (end = { end: outcomes[outcome] }),
      onRunErrorEvent: ({ event }) => void (end = { end: "failed", why: `${event.code}: ${event.message}` }),
      onRunFailed: () => ({ stopPropagation: true }),
    };
    this.ended = run(listener).then(() => ({ text: textOf(agent), ...end }));
  }
}

export const agUi = {
  name: "AG-UI",
  replaysEnded: true,
  async open(world, token, threadId) {
    const agent = new ThreadAgent({
      url: `${world.base}/v1/ag-ui/script`,
      threadId,
      headers: { authorization: `Bearer ${token}` },
    });
    let asked = 0;
    return {
      agent,
      async ask(content) {
        agent.addMessage({ id: `${threadId}-${++asked}`, role: "user", content });
        return new Answer(agent, (listener) => agent.runAgent({}, listener));
      },
      async comeBack() {
        let over = false;
        let begun = false;
        const run = (listener) =>
          agent
            .connectAgent({}, { ...listener, onRunStartedEvent: () => void (begun = true) })
            .finally(() => (over = true));
        const answer = new Answer(agent, run);
        await until(() => over || begun, "the replay, or that there is none");
        return begun ? answer : null;
      },
      close: () => agent.abortRun(),
    };
  },
};

holdsFor(agUi);
