// step_model.mjs -- a model whose second step a kill of the gateway cuts short, and which says it whole when asked anew.

import { once } from "node:events";
import { createServer } from "node:http";
import { until } from "./until.mjs";

/** It calls a tool in its first step; the answer to the third request is held until the gate opens. */
export class StepModel {
  #asked = 0;
  #server = createServer((_, reply) => this.#answer(reply));
  #gate = new Promise((resolve) => (this.open = resolve));

  /** The configuration of a world whose agent has this model. */
  async config(agent = "script") {
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    const base_url = `http://127.0.0.1:${this.#server.address().port}/v1`;
    return {
      models: [{ name: "m", base_url, model: "m" }],
      agents: [{ name: agent, kind: "react", model: "m", tools: ["clock"] }],
    };
  }

  close() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** In the middle of the second step; then its text is withdrawn, and the step is under way again. */
  async killIn(world) {
    await world.gateway.stop("SIGKILL");
    await world.gateway.start();
    await until(() => this.#asked === 3, "the step done anew");
  }

  async #answer(reply) {
    const say = (delta, finish_reason = null) =>
      reply.write(`data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
    this.#asked += 1;
    reply.writeHead(200, { "content-type": "text/event-stream" });
    if (this.#asked === 1) {
      say({ role: "assistant", content: "One. " });
      const call = { index: 0, id: "call-1", type: "function", function: { name: "clock", arguments: "{}" } };
      say({ tool_calls: [call] }, "tool_calls");
    } else {
      say({ role: "assistant", content: this.#asked === 2 ? "Tw" : "Two." });
      if (this.#asked === 2) return; // the gateway is killed here
      await this.#gate;
      say({}, "stop");
    }
    reply.end("data: [DONE]\n\n");
  }
}
