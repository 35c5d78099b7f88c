// a2a.mjs -- the A2A SDK's own client, in both bindings, and the messages that it sends.

import { randomUUID } from "node:crypto";
import {
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from "@a2a-js/sdk/client";
import { Role } from "@a2a-js/sdk";

export const bindings = [
  ["A2A over JSON-RPC", JsonRpcTransportFactory],
  ["A2A over REST", RestTransportFactory],
];

/** The SDK's client of the scripted agent, with the token in each request. */
export function clientOf(world, token, Transport, agent = "script") {
  const fetchImpl = (url, init) =>
    fetch(url, { ...init, headers: { ...init?.headers, authorization: `Bearer ${token}` } });
  const factory = new ClientFactory({
    ...ClientFactoryOptions.default,
    transports: [new Transport({ fetchImpl })],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  });
  return factory.createFromUrl(`${world.base}/v1/a2a/${agent}/`);
}

const textPart = (value) => ({ content: { $case: "text", value }, metadata: undefined, filename: "", mediaType: "" });

export function message(text, more = {}) {
  return {
    message: {
      messageId: randomUUID(),
      contextId: "",
      taskId: "",
      role: Role.ROLE_USER,
      parts: [textPart(text)],
      extensions: [],
      referenceTaskIds: [],
      metadata: undefined,
      ...more,
    },
    tenant: "",
    metadata: undefined,
  };
}
