// a2a_push.test.mjs -- push notifications: configs by the A2A SDK's own client, and a server that receives them.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import { bindings, clientOf, message } from "./support/a2a.mjs";
import { until } from "./support/until.mjs";
import { World } from "./support/world.mjs";

const SCENE_MS = 120_000;
const says = (...steps) => JSON.stringify(steps);

/** A server on an address that the gateway is allowed to reach; `refuses` of its answers are 503. */
class Receiver {
  got = [];

  async open(address = "127.0.0.2", refuses = 0) {
    this.server = createServer(async (request, response) => {
      let body = "";
      for await (const piece of request) body += piece;
      this.got.push({ path: request.url, headers: request.headers, ...JSON.parse(body) });
      response.writeHead(refuses-- > 0 ? 503 : 204).end();
    });
    this.server.listen(0, address);
    await once(this.server, "listening");
    this.url = `http://${address}:${this.server.address().port}/told`;
    return this;
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }

  async until(n) {
    await until(() => this.got.length >= n, `${n} notifications`);
    return this.got;
  }
}

for (const [name, Transport] of bindings) {
  const scene = (what, run, config = {}) =>
    test(`${name}: ${what}`, { timeout: SCENE_MS }, async () => {
      const world = await new World({ webhook_allow: ["127.0.0.2"], ...config }).open();
      const opened = [];
      const receive = async (...options) => {
        opened.push(await new Receiver().open(...options));
        return opened.at(-1);
      };
      try {
        const { token } = await world.guest();
        await run({ world, token, receive, client: await clientOf(world, token, Transport) });
      } finally {
        for (const receiver of opened) receiver.close();
        await world.close();
      }
    });
  /** A task that runs until its gate is opened. */
  const begin = async (client, world, ...steps) => {
    const gate = world.gate();
    const ask = message(says(...steps, { wait: gate.path }, { token: "done" }));
    return { gate, task: await client.sendMessage({ ...ask, configuration: { returnImmediately: true } }) };
  };
  const config = (taskId, url, more = {}) => ({ tenant: "", id: "", taskId, url, token: "", authentication: undefined, ...more });

  scene("the task's end is told with the token and the authentication", async ({ client, world, receive }) => {
    const receiver = await receive();
    const { task, gate } = await begin(client, world);
    const authentication = { scheme: "Bearer", credentials: "secret" };
    const made = await client.createTaskPushNotificationConfig(
      config(task.id, receiver.url, { id: "mine", token: "t-1", authentication }),
    );
    assert.equal((await client.getAgentCard()).capabilities.pushNotifications, true);
    assert.deepEqual(made, config(task.id, receiver.url, { id: "mine", token: "t-1", authentication }));
    await gate.open();
    const [{ path, headers, task: told }] = await receiver.until(1);
    assert.equal(path, "/told");
    assert.equal(headers["x-a2a-notification-token"], "t-1");
    assert.equal(headers.authorization, "Bearer secret");
    assert.equal(headers["content-type"], "application/a2a+json");
    const now = await client.getTask({ id: task.id });
    assert.deepEqual([told.id, told.contextId, told.status.state], [now.id, now.contextId, "TASK_STATE_COMPLETED"]);
    assert.equal(told.artifacts[0].parts[0].text, "done");
    await assert.rejects(client.createTaskPushNotificationConfig(config(task.id, receiver.url)), {
      reason: "UNSUPPORTED_OPERATION",
    });
  });

  scene("a config that comes with the message is told of a question, and of the failure", async ({ client, receive }) => {
    const receiver = await receive();
    const asks = [{ question: "q", kind: "question", prompt: "who?" }, { hear: "input" }, { exit: 3 }];
    const taskPushNotificationConfig = config("", receiver.url, { token: "t-2" });
    const asked = await client.sendMessage({
      ...message(says(...asks)),
      configuration: { taskPushNotificationConfig, acceptedOutputModes: [], returnImmediately: false },
    });
    await client.sendMessage(message("me", { taskId: asked.id }));
    const told = (await receiver.until(2)).toSorted((a, b) => b.task.status.state.localeCompare(a.task.status.state));
    assert.deepEqual(told.map(({ task }) => task.status.state), ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_FAILED"]);
    assert.ok(told.every(({ task, headers }) => task.id === asked.id && headers["x-a2a-notification-token"] === "t-2"));
    assert.match(told[1].task.status.message.parts[0].text, /exit status 3/);
  });

  scene("configs are listed, got, replaced and deleted, by their owner alone", async ({ client, world, receive }) => {
    const receiver = await receive();
    const { task, gate } = await begin(client, world);
    const first = await client.createTaskPushNotificationConfig(config(task.id, `${receiver.url}/1`));
    assert.ok(first.id, "the gateway names it");
    await client.createTaskPushNotificationConfig(config(task.id, `${receiver.url}/2`, { id: "two" }));
    await client.createTaskPushNotificationConfig(config(task.id, `${receiver.url}/3`, { id: "two", token: "3" }));
    const list = async () => (await client.listTaskPushNotificationConfig({ tenant: "", taskId: task.id, pageSize: 0, pageToken: "" })).configs;
    assert.deepEqual((await list()).map(({ url }) => url.slice(-1)), ["1", "3"]);
    const asked = { tenant: "", taskId: task.id, id: "two" };
    assert.equal((await client.getTaskPushNotificationConfig(asked)).token, "3");
    const stranger = await clientOf(world, (await world.guest()).token, Transport);
    for (const id of [task.id, "x", "bm9uZQ.01ARZ3NDEKTSV4RRFFQ69G5FAV"]) {
      const none = { reason: "TASK_NOT_FOUND", message: "no such task" };
      await assert.rejects(stranger.getTaskPushNotificationConfig({ ...asked, taskId: id }), none);
      await assert.rejects(stranger.createTaskPushNotificationConfig(config(id, receiver.url)), none);
      await assert.rejects(stranger.deleteTaskPushNotificationConfig({ ...asked, taskId: id }), none);
    }
    await client.deleteTaskPushNotificationConfig(asked);
    await assert.rejects(client.getTaskPushNotificationConfig(asked), { reason: "TASK_NOT_FOUND" });
    await gate.open();
    await receiver.until(1);
    assert.deepEqual(await list(), []);
    const later = await begin(client, world);
    await client.createTaskPushNotificationConfig(config(later.task.id, `${receiver.url}/later`));
    await later.gate.open();
    await receiver.until(2);
    assert.deepEqual(receiver.got.map(({ path }) => path), ["/told/1", "/told/later"]);
  });

  scene("a config survives kill -9, and a receiver that is away for a while", async ({ client, world, receive }) => {
    const receiver = await receive("127.0.0.2", 1);
    const { task } = await begin(client, world, { token: "said" });
    await client.createTaskPushNotificationConfig(config(task.id, receiver.url, { token: "t-4" }));
    await world.gateway.stop("SIGKILL");
    await world.gateway.start();
    const told = await receiver.until(2);
    assert.deepEqual(told[0].task, told[1].task);
    assert.equal(told[0].headers["webhook-id"], told[1].headers["webhook-id"]);
    assert.equal(told[1].headers["x-a2a-notification-token"], "t-4");
    assert.equal(told[1].task.status.state, "TASK_STATE_FAILED");
    assert.match(told[1].task.status.message.parts[0].text, /orphaned/);
  });

  scene("what is no address, or one too many, is refused; an inner address is never reached", async ({ client, world, receive }) => {
    const inner = await receive("127.0.0.1");
    const outer = await receive();
    const { task, gate } = await begin(client, world);
    for (const url of ["", "ftp://x/", "http://", "http://u@127.0.0.2/", "file:///etc/passwd", `http://x/${"x".repeat(2048)}`])
      await assert.rejects(client.createTaskPushNotificationConfig(config(task.id, url)), { reason: "INVALID_PARAMS" }, url);
    const token = "two\r\nlines: x";
    await assert.rejects(client.createTaskPushNotificationConfig(config(task.id, outer.url, { token })), { reason: "INVALID_PARAMS" });
    await client.createTaskPushNotificationConfig(config(task.id, inner.url));
    await client.createTaskPushNotificationConfig(config(task.id, outer.url));
    await assert.rejects(client.createTaskPushNotificationConfig(config(task.id, outer.url)), /too many webhooks/);
    await gate.open();
    await outer.until(1);
    await until(() => /component=webhook event=failed hook="\(of a task\)"/.test(world.gateway.log), "the refusal");
    assert.deepEqual(inner.got, []);
  }, { limits: { task_webhooks: 2 } });

  scene("a gateway without webhooks of tasks says so in its card, and the client asks for none", async ({ client }) => {
    assert.equal((await client.getAgentCard()).capabilities.pushNotifications, false);
    await assert.rejects(async () => client.createTaskPushNotificationConfig(config("x", "http://127.0.0.2/")), /not supported/);
  }, { limits: { task_webhooks: 0 } });
}

test("A2A: where tasks have no webhooks a config is refused, also one that comes with a message", async () => {
  const world = await new World({ limits: { task_webhooks: 0 } }).open();
  try {
    const { token } = await world.guest();
    const ask = async (path, body) => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const answer = await fetch(`${world.base}/v1/a2a/script${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      return { status: answer.status, ...(await answer.json()) };
    };
    const sent = { message: { messageId: "m", role: "ROLE_USER", parts: [{ text: says({ wait: world.gate().path }) }] } };
    const url = "http://127.0.0.2/";
    const refused = await ask("/message:send", { ...sent, configuration: { taskPushNotificationConfig: { url } } });
    assert.deepEqual([refused.status, refused.error.details[0].reason], [400, "PUSH_NOTIFICATION_NOT_SUPPORTED"]);
    const { task } = await ask("/message:send", { ...sent, configuration: { returnImmediately: true } });
    const late = await ask(`/tasks/${task.id}/pushNotificationConfigs`, { url });
    assert.deepEqual([late.status, late.error.details[0].reason], [400, "PUSH_NOTIFICATION_NOT_SUPPORTED"]);
  } finally {
    await world.close();
  }
});
