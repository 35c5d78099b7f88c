/**
 * @holdfast/client/files -- gives files to the gateway, and reads them.
 *
 * An upload names its try, so after a cut it goes on where the gateway says; it ends only when the
 * file is there, when the gateway refuses it, or when it is aborted.
 */

import { newId } from "./id.js";
import { HoldfastError } from "./errors.js";
import { IndexedStore, type Store } from "./store.js";
import type { FilePart } from "./wire.js";

export interface FilesOptions {
  /** The gateway's address, of http or https; "" for the page's own. */
  url: string;
  /** The owner's token, each time it is needed; "" where a cookie says who asks. */
  token: string | (() => string | Promise<string>);
  /** For tests, and for other ways to the network. */
  fetch?: typeof fetch | undefined;
}

export interface GiveOptions extends FilesOptions {
  name?: string | undefined;
  /** Media type; without it that of the file. */
  type?: string | undefined;
  /** Names the try over a reload of the page; without it one is drawn. */
  key?: string | undefined;
  /** Nothing was sent under this key before. */
  isNew?: boolean | undefined;
  signal?: AbortSignal | undefined;
  /** Bytes that the gateway has, or that are on their way to it. */
  onProgress?: ((sent: number, total: number) => void) | undefined;
  /** Between two tries: doubled each time, up to 32 times as long. */
  waitMs?: number | undefined;
}

const WAIT_MS = 500;

interface Answer {
  status: number;
  offset: number | null;
  body: any;
}

const wait = (ms: number, signal?: AbortSignal) =>
  new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, ms * (0.5 + Math.random()));
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });

/** RFC 8187. */
const dispositionOf = (name: string) =>
  `attachment; filename*=UTF-8''${encodeURIComponent(name).replace(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)}`;

const addressOf = ({ url }: FilesOptions, conversationId: string) =>
  `${url.replace(/\/$/, "")}/v1/conversations/${encodeURIComponent(conversationId)}/files`;

async function headersOf({ token }: FilesOptions): Promise<Record<string, string>> {
  const its = typeof token === "string" ? token : await token();
  return its ? { Authorization: `Bearer ${its}` } : {};
}

/** The token of the guest who is connected to this address by `connect(url)`, once there is one. */
export async function guestToken(url: string | URL, store: Store = new IndexedStore()): Promise<string | undefined> {
  return (await store.list<string>(`${url}  guest`))[0]; // where client.ts keeps it without a `user`
}

async function ask(options: GiveOptions, address: string, init: RequestInit): Promise<Answer> {
  const { fetch: by = fetch, signal } = options;
  const headers = { ...(await headersOf(options)), ...(init.headers as Record<string, string>) };
  const reply = await by(address, { ...init, headers, signal: signal ?? null });
  const offset = reply.headers.get("upload-offset");
  const text = init.method === "HEAD" ? "" : await reply.text();
  return { status: reply.status, offset: offset === null ? null : Number(offset), body: text ? JSON.parse(text) : {} };
}

/** fetch does not tell how much was sent; a browser's older interface does. */
async function send(options: GiveOptions, address: string, method: string, offset: number, rest: Blob): Promise<Answer> {
  const { name, type, onProgress, signal } = options;
  const headers: Record<string, string> = {
    "Content-Type": type || rest.type || "application/octet-stream",
    ...(name ? { "Content-Disposition": dispositionOf(name) } : {}),
    ...(method === "PATCH" ? { "Upload-Offset": String(offset) } : {}),
  };
  if (!onProgress || options.fetch || typeof XMLHttpRequest === "undefined") {
    return ask(options, address, { method, headers, body: rest });
  }
  const all = { ...(await headersOf(options)), ...headers };
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const stop = () => request.abort();
    request.open(method, address);
    for (const [key, value] of Object.entries(all)) request.setRequestHeader(key, value);
    request.upload.onprogress = ({ loaded }) => onProgress(offset + loaded, offset + rest.size);
    request.onload = () => {
      const at = request.getResponseHeader("upload-offset");
      resolve({
        status: request.status,
        offset: at === null ? null : Number(at),
        body: request.responseText ? JSON.parse(request.responseText) : {},
      });
    };
    request.onerror = request.onabort = () => reject(signal?.aborted ? signal.reason : new TypeError("network error"));
    request.onloadend = () => signal?.removeEventListener("abort", stop);
    signal?.addEventListener("abort", stop, { once: true });
    request.send(rest);
  });
}

/** Busy for now: everything else is an answer. */
const mayPass = ({ status, body }: Answer) =>
  status === 429 || (status === 503 && body.error?.retry_after_ms !== undefined) || status === 502 || status === 504;

/**
 * Gives a file to a conversation, over any number of cuts.  The part that comes back goes into the
 * message of a `chat`.
 */
export async function giveFile(conversationId: string, file: Blob, options: GiveOptions): Promise<FilePart> {
  const { key = newId(), signal, onProgress, waitMs = WAIT_MS } = options;
  const named = { name: (file as { name?: string }).name, ...options, type: options.type ?? file.type };
  const address = `${addressOf(options, conversationId)}?upload=${encodeURIComponent(key)}`;
  let offset = 0;
  let failures = options.key === undefined || options.isNew ? 0 : 1; // an earlier page may have begun
  for (;;) {
    try {
      signal?.throwIfAborted();
      if (failures > 0) offset = (await ask(options, address, { method: "HEAD" })).offset ?? 0;
      onProgress?.(offset, file.size);
      const answer = await send(named, address, offset > 0 ? "PATCH" : "POST", offset, file.slice(offset));
      if (answer.status < 300) {
        onProgress?.(file.size, file.size);
        const { file_id, name, media_type, size, sha256 } = answer.body;
        return { type: "file", file_id, name, media_type, size, sha256 };
      }
      const isElsewhere = answer.status === 409 && answer.offset !== null;
      if (!isElsewhere && !mayPass(answer)) {
        const { code = "internal", message = `HTTP ${answer.status}` } = answer.body.error ?? {};
        throw new HoldfastError(code, message);
      }
    } catch (error) {
      if (signal?.aborted || error instanceof HoldfastError) throw error;
    }
    await wait(waitMs * 2 ** Math.min(failures++, 5), signal);
  }
}

/** A file's bytes, for its owner; for a preview, `URL.createObjectURL` of it. */
export async function readFile(conversationId: string, fileId: string, options: FilesOptions): Promise<Blob> {
  const { fetch: by = fetch } = options;
  const address = `${addressOf(options, conversationId)}/${encodeURIComponent(fileId)}`;
  const reply = await by(address, { headers: await headersOf(options) });
  if (reply.ok) return reply.blob();
  const { error } = await reply.json().catch(() => ({}));
  throw new HoldfastError(error?.code ?? "internal", error?.message ?? `HTTP ${reply.status}`);
}
