import { expect, it, vi } from "vitest";
import { giveFile, guestToken, readFile } from "../../src/files.js";
import { MemoryStore } from "../../src/index.js";
import { scene, settle } from "../support/script.js";

const FILE = { type: "file", file_id: "01F", name: "a b.txt", media_type: "text/plain", size: 10, sha256: "ab" };
const OPTIONS = { url: "http://gateway/", token: async () => "T", waitMs: 1 };

/** A gateway that takes some bytes of each try, and cuts it; `last` is its answer to what is whole. */
function gateway(takes: number[], last: () => Response = () => Response.json(FILE, { status: 201 })) {
  const asked: string[] = [];
  let has = new Uint8Array();
  const by = (async (address: string, init: RequestInit) => {
    const headers = init.headers as Record<string, string>;
    asked.push(`${init.method ?? "GET"} ${headers["Upload-Offset"] ?? ""}`);
    expect(headers.Authorization).toBe("Bearer T");
    expect(address).toMatch(/^http:\/\/gateway\/v1\/conversations\/c%201\/files\?upload=\w+$/);
    if (init.method === "HEAD") return new Response(null, { headers: { "Upload-Offset": String(has.length) } });
    const body = new Uint8Array(await (init.body as Blob).arrayBuffer());
    const take = takes.shift() ?? body.length;
    has = new Uint8Array([...has, ...body.slice(0, take)]);
    if (take < body.length) throw new TypeError("cut");
    return last();
  }) as typeof fetch;
  return { asked, fetch: by, text: () => new TextDecoder().decode(has) };
}

const file = () => new Blob(["0123456789"], { type: "text/plain" });

it("an upload goes on where it was cut", async () => {
  const { asked, fetch, text } = gateway([4, 0, 3]);
  const told: number[] = [];
  const part = await giveFile("c 1", file(), { ...OPTIONS, fetch, name: "a b.txt", onProgress: (sent) => told.push(sent) });
  expect(part).toEqual(FILE);
  expect(text()).toBe("0123456789");
  expect(asked).toEqual(["POST ", "HEAD ", "PATCH 4", "HEAD ", "PATCH 4", "HEAD ", "PATCH 7"]);
  expect(told).toEqual([0, 4, 4, 7, 10]);
});

it("a try of an earlier page goes on", async () => {
  const { asked, fetch } = gateway([]);
  await giveFile("c 1", file(), { ...OPTIONS, fetch, key: "mine" });
  expect(asked).toEqual(["HEAD ", "POST "]);
});

it("a refusal is the end, and a busy gateway is not", async () => {
  const refusal = () => Response.json({ error: { code: "too_large", message: "too large" } }, { status: 413 });
  const refused = gateway([], refusal);
  await expect(giveFile("c 1", file(), { ...OPTIONS, fetch: refused.fetch })).rejects.toMatchObject({ code: "too_large" });
  expect(refused.asked).toEqual(["POST "]);
  let n = 0;
  const busy = () => Response.json({ error: { code: "overloaded", message: "", retry_after_ms: 1 } }, { status: 503 });
  const { asked, fetch } = gateway([], () => (n++ < 1 ? busy() : Response.json(FILE, { status: 201 })));
  expect(await giveFile("c 1", file(), { ...OPTIONS, fetch })).toEqual(FILE);
  expect(asked).toEqual(["POST ", "HEAD ", "PATCH 10"]);
});

it("an abort ends it, also between two tries", async () => {
  const { fetch } = gateway([1]);
  const stop = new AbortController();
  const given = giveFile("c 1", file(), { ...OPTIONS, fetch, waitMs: 100_000, signal: stop.signal });
  setTimeout(() => stop.abort(new Error("enough")), 5);
  await expect(given).rejects.toThrow("enough");
});

it("a file is read, or the reason told", async () => {
  const read = (reply: Response) => readFile("c", "f/x", { ...OPTIONS, fetch: (async (at: string) => {
    expect(at).toBe("http://gateway/v1/conversations/c/files/f%2Fx");
    return reply;
  }) as typeof fetch });
  expect(await (await read(new Response("bytes"))).text()).toBe("bytes");
  const missing = Response.json({ error: { code: "not_found", message: "no such file" } }, { status: 404 });
  await expect(read(missing)).rejects.toMatchObject({ code: "not_found" });
});

it("who is known by a cookie sends no token", async () => {
  const by = (async (_: string, { headers }: RequestInit) => {
    expect(headers).not.toHaveProperty("Authorization");
    return new Response("its bytes");
  }) as typeof fetch;
  expect(await (await readFile("c", "f", { url: "", token: "", fetch: by })).text()).toBe("its bytes");
});

it("the token of a guest is the one that the connection keeps", async () => {
  const store = new MemoryStore();
  expect(await guestToken("ws://gateway/v1/ws", store)).toBe(undefined);
  vi.useFakeTimers();
  const its = await scene({ token: undefined, store });
  its.socket.welcome({ owner: "guest-1", token: "g1" });
  await settle();
  expect(await guestToken("ws://gateway/v1/ws", store)).toBe("g1");
  its.client.close();
  vi.useRealTimers();
});
