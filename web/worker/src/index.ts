/** A worker: serves agents of a Holdfast gateway from anywhere, over a WebSocket that it opens itself.  Both sides
 * number their lines, and send again what the other has not received (section 10 of proto/PROTOCOL.md). */

export type Data = Record<string, unknown>;
export type Line = Data & { type: string; run: string; n: number };
export type Agent = (run: Run) => Promise<void>;
/** runs: at once, 4 by default.  WebSocket: for a Node without one, that of the package `ws`. */
export type Options = { runs?: number; WebSocket?: new (url: string, protocol: string) => WebSocket };

const MOST_BUFFERED = 1 << 20; // bytes that the socket has not sent; more wait
const SILENT_MS = 60_000; // the gateway says something every 20 s
const sleep = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

/** A task for an agent.  line is all that the gateway says of it: history, metadata, parent. */
export class Run {
  readonly id = this.line.run;
  readonly input = this.line["input"] as string;
  /** Aborted by a cancel, and when the gateway gives the run up; what waits for an answer is rejected then. */
  readonly stop = new AbortController();
  /** @internal */ received = 0;
  /** @internal */ unsaved: { n: number; text: string }[] = []; // not on the gateway's disk yet
  private said = 0;
  private readonly waiting = new Map<string, { resolve(line: Line): void; reject(why: unknown): void }>();
  private readonly inbox: Line[] = [];

  constructor(private readonly worker: Worker, agent: Agent, readonly line: Line) {
    this.stop.signal.addEventListener("abort", () => this.waiting.forEach((of) => of.reject(this.stop.signal.reason)));
    const failed = (why: unknown) => this.put({ end: "failed", error: String(why) });
    void Promise.resolve(this).then(agent).then(() => this.put({ end: "done" }), failed);
  }

  /** An event of section 8.  Await it: it takes as long as the gateway does not read. */
  say = (event: string, data: Data = {}): Promise<void> => this.put({ event, data });

  /** A call of section 8 ("tool", "spawn", "send", "cancel"), and the line that answers it. */
  call = (call: string, fields: Data = {}, call_id = `c${this.said}`): Promise<Line> =>
    this.answer(call_id, { call, call_id, ...fields });

  /** A question to the user, and the answer; null when it expired. */
  ask = (prompt: string, more: Data = {}, input_id = `q${this.said}`): Promise<unknown> =>
    this.answer(input_id, { event: "input_required", data: { kind: "question", input_id, prompt, ...more } })
      .then((line) => line["answer"]);

  /** The next message of its inbox. */
  message = async (): Promise<Line> => this.inbox.shift() ?? this.answer("message");

  private async answer(key: string, line?: Data): Promise<Line> {
    this.stop.signal.throwIfAborted();
    if (line) void this.put(line);
    return new Promise((resolve, reject) => this.waiting.set(key, { resolve, reject }));
  }

  private async put(line: Data): Promise<void> {
    const [n, text] = [++this.said, JSON.stringify({ run: this.id, n: this.said, ...line })];
    this.unsaved.push({ n, text });
    this.worker.send(text);
    while (this.worker.isFull(this)) await sleep(5); // a WebSocket does not say when it has room
  }

  /** @internal */ saved = (upto: number): void => void (this.unsaved = this.unsaved.filter(({ n }) => n > upto));

  /** @internal */ take(line: Line): void {
    this.received = line.n;
    const key = line.type === "message" ? line.type : String(line["call_id"] ?? line["input_id"]);
    if (line.type === "message" && !this.waiting.has(key)) this.inbox.push(line);
    this.waiting.get(key)?.resolve(line);
    this.waiting.delete(key);
    this.worker.send(JSON.stringify({ type: "ack", run: this.id, n: line.n }));
  }
}

export class Worker {
  private readonly runs = new Map<string, Run>();
  private readonly hello: Data;
  private socket: WebSocket | undefined;
  private welcome = false; // the connection may carry lines of runs
  private draining = false;

  constructor(private readonly url: string, name: string, secret: string,
    private readonly agents: Record<string, Agent>, private readonly options: Options = {}) {
    if (!options.WebSocket && typeof WebSocket === "undefined")
      throw new Error("no WebSocket: pass { WebSocket } of package ws");
    const [instance, runs] = [crypto.randomUUID(), options.runs ?? 4];
    this.hello = { type: "hello", worker: name, secret, instance, agents: Object.keys(agents), runs };
  }

  /** Comes back whenever the connection breaks; returns when it is drained and its last run has ended. */
  async serve(): Promise<void> {
    for (let pause = 100; !this.draining || this.runs.size > 0; pause = Math.min(2 * pause, 10_000)) {
      if (await new Promise(this.connect)) pause = 100;
      this.welcome = false;
      await sleep(pause * Math.random());
    }
  }

  /** Takes no more runs. */
  drain(): void {
    this.draining = true;
    this.send('{"type":"drain"}');
  }

  private readonly connect = (over: (wasOfUse: boolean) => void): void => {
    const socket = (this.socket = new (this.options.WebSocket ?? WebSocket)(this.url, "holdfast.worker.v1"));
    const end = () => {
      clearTimeout(silence);
      socket.onmessage = socket.onclose = socket.onerror = () => undefined;
      socket.close();
      over(this.welcome);
    };
    let silence = setTimeout(end, SILENT_MS);
    const received = () => Object.fromEntries([...this.runs].map(([id, run]) => [id, run.received]));
    socket.onopen = () => socket.send(JSON.stringify({ ...this.hello, open: received() }));
    socket.onclose = socket.onerror = end;
    socket.onmessage = ({ data }) => {
      clearTimeout(silence);
      silence = setTimeout(end, SILENT_MS);
      for (const line of String(data).split("\n").filter(Boolean)) this.take(JSON.parse(line) as Line);
      if (this.draining && this.runs.size === 0) end();
    };
  };

  /** @internal */ isFull = (run: Run): boolean =>
    this.runs.get(run.id) === run && !(this.welcome && this.socket!.bufferedAmount < MOST_BUFFERED);

  /** @internal */ send(text: string): void {
    if (this.welcome && this.socket!.readyState === 1) this.socket!.send(text); // else the next connection carries it
  }

  private take(line: Line): void {
    if (line.type === "run" && !this.runs.has(line.run))
      this.runs.set(line.run, new Run(this, this.agents[line["agent"] as string]!, line));
    const run = this.runs.get(line.run);
    if (line.type === "welcome") this.goOn(line["open"] as Record<string, number>);
    else if (line.type === "drain") this.draining = true;
    else if (line.type === "error") console.warn(`the gateway says: ${String(line["message"])}`);
    else if (line.type === "ack") run?.saved(line.n);
    else if (line.type === "cancel") run?.stop.abort();
    else if (line.type === "gone" && this.runs.delete(line.run)) run!.stop.abort();
    else if (line.n) run?.take(line);
  }

  private goOn(saved: Record<string, number>): void {
    this.welcome = true;
    for (const [id, run] of this.runs) {
      if (!(id in saved)) this.take({ type: "gone", run: id, n: 0 });
      run.saved(saved[id] ?? Infinity);
      for (const { text } of run.unsaved) this.send(text);
    }
    if (this.draining) this.drain();
  }
}
