// acp.mjs -- ACP's own client on a WebSocket, and what it has been told of a session.

import { client, methods } from "@agentclientprotocol/sdk";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import WebSocket from "ws";

const PLACE = { cwd: "/", mcpServers: [] };
const { session: asks, elicitation } = methods.client;
const { initialize, session } = methods.agent;

/**
 * A connection that is initialized. It collects the session's updates; handlers: permit and elicit answer questions,
 * each with (params, signal).
 */
export class Acp {
  updates = [];
  ends = []; // of turns that another connection has begun
  events = [];
  #connection;
  #end;
  #hear;
  heard = new Promise((resolve) => (this.#hear = resolve)); // the first update
  firstEnd = new Promise((resolve) => (this.#end = resolve));

  static async open(world, token, { query = "", headers, capabilities = {}, permit, elicit, meta } = {}) {
    const acp = new Acp();
    const stream = createWebSocketStream(`${world.base.replace("http", "ws")}/v1/acp${query}`, {
      WebSocket,
      headers: headers ?? { authorization: `Bearer ${token}` },
    });
    const app = client({ name: "test" })
      .onNotification(asks.update, ({ params }) => acp.#updated(params.update))
      .onNotification("_holdfast/turn_ended", (params) => params, ({ params }) => acp.#ended(params))
      .onNotification("_holdfast/event", (params) => params, ({ params }) => void acp.events.push(params));
    if (permit) app.onRequest(asks.requestPermission, ({ params, signal }) => permit(params, signal));
    if (elicit) app.onRequest(elicitation.create, ({ params, signal }) => elicit(params, signal));
    acp.#connection = app.connect(stream);
    acp.closed = acp.#connection.closed.catch(() => {});
    const clientCapabilities = elicit ? { elicitation: { form: {} }, ...capabilities } : capabilities;
    acp.agent = await acp.request(initialize, { protocolVersion: 1, clientCapabilities, _meta: meta });
    return acp;
  }

  #updated(update) {
    this.updates.push(update);
    this.#hear();
  }

  #ended(end) {
    this.ends.push(end);
    setImmediate(this.#end, this.ends[0]);
  }

  /** Its reply, when the handlers of all that came before it have run: the SDK does not wait for them. */
  async request(method, params) {
    try {
      return await this.#connection.agent.request(method, params);
    } finally {
      await new Promise(setImmediate);
    }
  }

  notify(method, params) {
    return this.#connection.agent.notify(method, params);
  }

  begin = async () => (await this.request(session.new, PLACE)).sessionId;
  load = (sessionId) => this.request(session.load, { sessionId, ...PLACE });
  prompt = (sessionId, text) => this.request(session.prompt, { sessionId, prompt: [{ type: "text", text }] });
  resume = (sessionId) => this.request(session.resume, { sessionId, ...PLACE });
  list = (params = {}) => this.request(session.list, params);
  end = (sessionId) => this.request(session.close, { sessionId });
  remove = (sessionId) => this.request(session.delete, { sessionId });
  cancel = (sessionId) => this.notify(session.cancel, { sessionId });

  /** The agent's words since the last message of the user. */
  text() {
    const from = this.updates.findLastIndex(({ sessionUpdate }) => sessionUpdate === "user_message_chunk");
    const said = this.updates.slice(from + 1).filter(({ sessionUpdate }) => sessionUpdate === "agent_message_chunk");
    return said.map(({ content }) => content.text).join("");
  }

  close() {
    this.#connection.close();
    return this.closed;
  }
}
