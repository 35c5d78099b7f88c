// ag_ui.mjs -- the adapter of AG-UI's own HttpAgent for the shared cases.

import { until } from "./cases.mjs";
import { ThreadAgent, textOf } from "./thread_agent.mjs";

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
