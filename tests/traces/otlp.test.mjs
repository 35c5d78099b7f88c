// The spans that a gateway exports, read back and written again by OpenTelemetry's own transformer: member by member
// the same.  What the transformer adds are zeros and empty lists.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import test from "node:test";
import { JsonTraceSerializer } from "@opentelemetry/otlp-transformer";

const hr = (nanos) => [Number(BigInt(nanos) / 1000000000n), Number(BigInt(nanos) % 1000000000n)];
const values = (attributes) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue)]));

/** A span of the wire as the SDK has one in memory. */
function readable(span, resource, scope) {
  const context = (spanId) => ({ traceId: span.traceId, spanId, traceFlags: 1 });
  return {
    name: span.name,
    kind: span.kind - 1, // the API counts from INTERNAL, the wire from UNSPECIFIED
    spanContext: () => context(span.spanId),
    parentSpanContext: span.parentSpanId && context(span.parentSpanId),
    startTime: hr(span.startTimeUnixNano),
    endTime: hr(span.endTimeUnixNano),
    status: span.status,
    attributes: values(span.attributes),
    events: (span.events ?? []).map((e) => ({ name: e.name, time: hr(e.timeUnixNano), attributes: values(e.attributes) })),
    links: [],
    resource,
    instrumentationScope: scope,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

/** ours is in theirs: 64-bit numbers are text or numbers in JSON, as protobuf says. */
function within(ours, theirs, at) {
  if (ours === null || typeof ours !== "object") assert.equal(String(theirs), String(ours), at);
  else for (const key of Object.keys(ours)) within(ours[key], theirs?.[key], `${at}.${key}`);
}

test("spans are those of OTLP", { timeout: 120000 }, async () => {
  const bodies = [];
  const collector = createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      bodies.push(JSON.parse(Buffer.concat(parts)));
      response.setHeader("content-type", "application/json").end("{}");
    });
  });
  collector.listen(0, "127.0.0.1");
  await once(collector, "listening");
  const folder = mkdtempSync(join(tmpdir(), "holdfast-traces-"));
  const config = join(folder, "config.json");
  const url = `http://127.0.0.1:${collector.address().port}/v1/traces`;
  writeFileSync(config, JSON.stringify({ traces: { url, service: "a service" } }));
  const gateway = spawn(process.env.HOLDFAST, ["serve", "--config", config, "--listen", "127.0.0.1:0", "--data", folder]);
  try {
    let address;
    for await (const line of createInterface({ input: gateway.stderr })) {
      address = /event=ready .*open=(\S+)/.exec(line)?.[1];
      if (address) break;
    }
    gateway.stderr.resume();
    const { token } = await (await fetch(`${address}/v1/guest`, { method: "POST" })).json();
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const ask = (message) =>
      fetch(`${address}/v1/conversations/c-1/tasks`, { method: "POST", headers, body: JSON.stringify({ message }) });
    await ask("what is 6*7?");
    const spans = () => bodies.flatMap((body) => body.resourceSpans[0].scopeSpans[0].spans);
    while (!spans().some((span) => span.name.startsWith("invoke_agent"))) await new Promise((go) => setTimeout(go, 50));
    assert.ok(spans().some((span) => span.name.startsWith("chat ")), "a turn of the model");
    for (const body of bodies) {
      const [{ resource, scopeSpans: [{ scope, spans }] }] = body.resourceSpans;
      const one = { attributes: values(resource.attributes), asyncAttributesPending: false };
      const again = JsonTraceSerializer.serializeRequest(spans.map((span) => readable(span, one, scope)));
      const theirs = JSON.parse(Buffer.from(again));
      within(body, theirs, "body");
      assert.equal(theirs.resourceSpans[0].scopeSpans[0].spans.length, spans.length);
    }
  } finally {
    gateway.kill();
    await once(gateway, "exit");
    collector.close();
  }
});
