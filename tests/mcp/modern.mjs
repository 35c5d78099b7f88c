// A server of 2026-07-28 alone, on the SDK's own package.
//
//     node modern.mjs stdio          node modern.mjs PORT        (HTTP, at /mcp; says "ready" on stdout)
import http from "node:http";

import { McpServer, acceptedContent, createMcpHandler, fromJsonSchema, inputRequired } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const say = (text) => ({ content: [{ type: "text", text }] });
const read = { readOnlyHint: true };
const region = { type: "object", properties: { region: { type: "string", "x-mcp-header": "Region" } }, required: ["region"] };
let changed = false;
let announce = () => {};

function make() {
  const server = new McpServer({ name: "modern", version: "1" }, { capabilities: { tools: { listChanged: true } } });
  server.registerTool("echo", { description: "says it again", inputSchema: z.object({ text: z.string() }), annotations: read },
    ({ text }) => say(text));
  server.registerTool("steps", { inputSchema: z.object({ n: z.number() }), annotations: read }, async ({ n }, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let i = 1; i <= n; i++)
      await ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress: i, total: n, message: `step ${i}` } });
    return say(`${n} steps`);
  });
  server.registerTool("wait", { inputSchema: z.object({}), annotations: read }, (_, ctx) =>
    new Promise((resolve, reject) => {
      ctx.mcpReq.signal.addEventListener("abort", () => {
        console.error("aborted");
        reject(new Error("aborted"));
      });
      const progressToken = ctx.mcpReq._meta?.progressToken;
      ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress: 1 } });
    }));
  server.registerTool("deploy", { inputSchema: z.object({ env: z.string() }), annotations: read }, ({ env }, ctx) => {
    const answers = ctx.mcpReq.inputResponses;
    if (!answers)
      return inputRequired({ requestState: `state-${env}`, inputRequests: { confirm: inputRequired.elicit({
        message: `Deploy to ${env}?`, requestedSchema: { type: "object", properties: { count: { type: "integer", minimum: 1 } }, required: ["count"] } }) } });
    const given = acceptedContent(answers, "confirm");
    return say(given ? `${given.count} to ${env}, ${ctx.mcpReq.requestState()}` : `not ${env}: ${answers.confirm.action}`);
  });
  server.registerTool("open", { inputSchema: z.object({}), annotations: read }, (_, ctx) => ctx.mcpReq.inputResponses
    ? say(ctx.mcpReq.inputResponses.page.action)
    : inputRequired({ inputRequests: { page: inputRequired.elicitUrl({ message: "Sign in", url: "https://example.com/in" }) } }));
  server.registerTool("region", { inputSchema: fromJsonSchema(region), annotations: read }, (args, ctx) =>
    say(`${args.region} ${ctx.http?.req?.headers?.get?.("mcp-param-region") ?? ""}`));
  server.registerTool("list", { inputSchema: z.object({}), outputSchema: z.array(z.number()), annotations: read },
    () => ({ content: [], structuredContent: [1, 2.50, 3] }));
  server.registerTool("throw", { inputSchema: z.object({}), annotations: read }, () => { throw new Error("no such luck"); });
  server.registerTool("change", { inputSchema: z.object({}), annotations: read }, () => {
    changed = true;
    announce(server);
    return say("changed");
  });
  if (changed)
    server.registerTool("late", { inputSchema: z.object({}), annotations: read }, () => say("late"));
  server.registerTool("write", { inputSchema: z.object({}) }, () => say("written"));
  return server;
}

if (process.argv[2] === "stdio") {
  announce = (server) => {
    server.registerTool("late", { inputSchema: z.object({}), annotations: read }, () => say("late"));
  };
  serveStdio(make, { legacy: "reject" });
} else {
  const handler = createMcpHandler(make, { legacy: "reject" });
  announce = () => handler.notify.toolsChanged();
  const server = http.createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const stop = new AbortController();
    response.on("close", () => stop.abort());
    const body = chunks.length ? Buffer.concat(chunks) : undefined;
    const reply = await handler.fetch(new Request(`http://${request.headers.host}${request.url}`,
      { method: request.method, headers: request.headers, body, signal: stop.signal, duplex: "half" }));
    response.writeHead(reply.status, Object.fromEntries(reply.headers));
    if (reply.body) for await (const chunk of reply.body) response.write(chunk);
    response.end();
  });
  server.listen(Number(process.argv[2]), "127.0.0.1", () => console.log("ready"));
}
