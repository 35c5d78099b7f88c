// front.mjs -- a server of the suite's tools, for the suite alone: agents are told what to say in place of each tool.
//
// The suite calls tools that have arguments of their own, or none; an agent of ours has one, `message`. So the front
// puts the agent's script there, and the owner's token into the head. All else goes to the gateway as it came.

import { createServer, request } from "node:http";
import { once } from "node:events";

const ask = (id, prompt = "What is your name?") => [{ question: id, kind: "question", prompt }, { hear: "input" }];
const NAMED = [...ask("q1"), { token: "Hello, Alice!" }];
const FAILS = [{ token: "so far" }, { exit: 3 }];

/** An agent of each tool's name does this. */
export const SCRIPTS = {
  test_simple_text: [{ token: "This is a simple text response for testing." }],
  test_error_handling: FAILS,
  test_tool_with_progress: [0, 50, 100].map((n) => ({ progress: n / 100, note: `Completed step ${n} of 100` })),
  test_elicitation: NAMED,
  test_streaming_elicitation: NAMED,
  test_input_required_result_elicitation: NAMED,
  test_input_required_result_request_state: NAMED,
  test_input_required_result_tampered_state: NAMED,
  test_input_required_result_multi_round: [...ask("q1"), ...ask("q2", "What is your colour?"), { token: "Hello, Alice!" }],
  test_reconnection: [{ token: "so" }],
  greet: [{ token: "Hello" }],
  slow_compute: [{ sleep_ms: 1000 }, { token: "42" }],
  failing_job: FAILS,
  confirm_delete: [...ask("q1", "Delete it?"), { token: "deleted" }],
  multi_input: [{ question: "q1", kind: "question", prompt: "Who?" }, ...ask("q2", "What?"), { hear: "input" }, { token: "so" }],
};

export class Front {
  #server = createServer((incoming, reply) => this.#serve(incoming, reply).catch(() => reply.destroy()));

  async open(port) {
    this.port = port;
    this.token = (await (await fetch(`http://127.0.0.1:${port}/v1/guest`, { method: "POST" })).json()).token;
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    return `http://localhost:${this.#server.address().port}/mcp`;
  }

  close() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  #told(body) {
    let message;
    try {
      message = JSON.parse(body);
    } catch {
      return body;
    }
    const { method, params } = message;
    const script = method === "tools/call" && SCRIPTS[params?.name];
    if (!script) return body;
    return JSON.stringify({ ...message, params: { ...params, arguments: { ...params.arguments, message: JSON.stringify(script) } } });
  }

  async #serve(incoming, reply) {
    const pieces = [];
    for await (const piece of incoming) pieces.push(piece);
    const body = this.#told(Buffer.concat(pieces).toString());
    const own = { authorization: `Bearer ${this.token}`, ...(body && { "content-length": Buffer.byteLength(body) }) };
    const { "transfer-encoding": _, ...headers } = { ...incoming.headers, ...own };
    const asked = request({ port: this.port, host: "127.0.0.1", method: incoming.method, path: "/v1/mcp", headers });
    asked.on("response", (answer) => {
      reply.writeHead(answer.statusCode, answer.rawHeaders);
      reply.flushHeaders();
      answer.pipe(reply);
      answer.on("error", () => reply.destroy());
    });
    asked.on("error", () => reply.destroy());
    reply.on("close", () => asked.destroy());
    asked.end(body);
  }
}
