// thread_agent.mjs -- AG-UI's own HttpAgent with the connect() of docs/faces.md, which the stock class leaves to the
// application. It runs in a browser, too.

import { HttpAgent, runHttpRequest, transformHttpEventStream } from "@ag-ui/client";

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
