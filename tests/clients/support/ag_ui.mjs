// ag_ui.mjs -- AG-UI's own HttpAgent with the connect() of docs/faces.md, which the stock class leaves to the
// application; and the adapter for the shared cases.

import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";
import { until } from "./cases.mjs";

export class ThreadAgent extends HttpAgent {
  #last = null;

  constructor({ fetch: ask = globalThis.fetch, ...config }) {
    super(config);
    this.ask = ask;
    this.fetch = async (url, init) => this.#listen(await this.ask(url, init));
  }

  connect({ threadId }) {
    const headers = { ...this.headers, ...(this.#last && { "last-event-id": this.#last }) };
    this.abortController = new AbortController();
    const init = { headers, signal: this.abortController.signal };
    const url = `${this.url}/${encodeURIComponent(threadId)}`;
    return transformHttpEventStream(runHttpRequest(() => this.fetch(url, init)));
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
    const { status, headers } = response;
    return { ok: true, status, headers, body: { getReader: () => ({ read, cancel }) } };
  }
}

/** The assistant's messages since the last question. */
export function textOf(agent) {
  const asked = agent.messages.findLastIndex(({ role }) => role === "user");
  const said = agent.messages.slice(asked + 1).filter(({ role }) => role === "assistant");
  return said.map(({ content }) => content ?? "").join("");
}

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
