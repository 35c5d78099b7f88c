/** @holdfast/client/verify -- the continuity proofs of an export over HTTP, checked on any machine. */

/** A task in an export: `broken` names the first event that is not as it was said. */
export interface Proof {
  task_id: string;
  events: number;
  state: "proved" | "none" | "broken";
  brokenAt?: number;
}

interface Event {
  type: string;
  task_id: string;
  seq: number;
  event: string;
  data: { chain?: string };
}

const isEnd = ({ event }: Event) => event === "task.completed" || event === "task.failed";
const hexOf = (bytes: Uint8Array) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

async function next(hash: Uint8Array, line: string): Promise<Uint8Array> {
  const text = new TextEncoder().encode(line);
  const both = new Uint8Array(hash.length + text.length);
  both.set(hash);
  both.set(text, hash.length);
  return new Uint8Array(await crypto.subtle.digest("SHA-256", both));
}

async function proofOf(task_id: string, lines: readonly [string, Event][]): Promise<Proof> {
  const proof = (state: Proof["state"], brokenAt?: number): Proof => ({
    task_id,
    events: lines.length,
    state,
    ...(brokenAt !== undefined && { brokenAt }),
  });
  let hash: Uint8Array = new Uint8Array(32);
  const first = lines[0]![1].seq;
  for (const [at, [line, event]] of lines.entries()) {
    if (event.seq !== first + at) return proof("broken", first + at);
    if (!isEnd(event)) hash = await next(hash, line);
    else if (at < lines.length - 1) return proof("broken", event.seq + 1);
  }
  const [, end] = lines.at(-1)!;
  const told = isEnd(end) && first === 1 ? end.data.chain : undefined;
  if (told === undefined) return proof("none");
  return told === hexOf(hash) ? proof("proved") : proof("broken", end.seq);
}

/** Each task whose events are in the file: `GET /v1/conversations/{c}/export`, its bytes unchanged. */
export async function verify(file: Blob): Promise<Proof[]> {
  const tasks = new Map<string, [string, Event][]>();
  for (const line of (await file.text()).split("\n")) {
    if (!line.startsWith('{"type":"event",')) continue;
    const event = JSON.parse(line) as Event;
    const lines = tasks.get(event.task_id);
    if (lines) lines.push([line, event]);
    else tasks.set(event.task_id, [[line, event]]);
  }
  return Promise.all([...tasks].map(([id, lines]) => proofOf(id, lines)));
}
