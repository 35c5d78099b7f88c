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
  readonly id: string;
  readonly input: string;
  /** Aborted by a cancel, and when the gateway gives the run up; what waits for an answer is rejected then. */
  readonly stop = new AbortController();
  /** @internal */ received = 0;
  /** @internal */ unsaved: { n: number; text: string }[] = []; // not on the gateway's disk yet
  private said = 0;
  private readonly waiting = new Map<string, (line: Line) => void>();
  private readonly inbox: Line[] = [];

  constructor(private readonly worker: Worker, agent: Agent, readonly line: Line) {
    [this.id, this.input] = [line.run, line["input"] as string];
    const failed = (why: unknown) => this.put({ end: "failed", error: String(why) });
    void Promise.resolve(this).then(agent).then(() => this.put({ end: "done" }), failed);
  }

  /** An event of section 8.  Await it: it takes as long as the gateway does not read. */
  say = (event: string, data: Data = {}): Promise<void> => this.put({ event, data });

  /** A call of section 8 ("tool", "spawn", "send", "cancel"), and the line that answers it. */
  call = (call: string, fields: Data = {}): Promise<Line> =>
    this.answer(`c${this.said}`, (call_id) => this.put({ call, call_id, ...fields }));

  /** A question to the user, and the answer; null when it expired. */
  ask = async (prompt: string, data: Data = {}): Promise<unknown> =>
    (await this.answer(`q${this.said}`, (input_id) =>
      this.say("input_required", { kind: "question", input_id, prompt, ...data })))["answer"];

  /** The next message of its inbox. */
  message = async (): Promise<Line> => this.inbox.shift() ?? this.answer("message");

  private answer(key: string, put?: (key: string) => Promise<void>): Promise<Line> {
    const { signal } = this.stop;
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      signal.addEventListener("abort", () => reject(signal.reason));
      this.waiting.set(key, resolve);
      void put?.(key);
    });
  }

  private async put(line: Data): Promise<void> {
    const [n, text] = [++this.said, JSON.stringify({ run: this.id, n: this.said, ...line })];
    this.unsaved.push({ n, text });
    this.worker.send(text);
    while (this.worker.isFull(this)) await sleep(5); // a WebSocket does not say when it has room
  }

  /** @internal */ take(line: Line): void {
    this.received = line.n;
    const key = line.type === "message" ? "message" : String(line["call_id"] ?? line["input_id"]);
    if (this.waiting.has(key)) this.waiting.get(key)!(line);
    else if (key === "message") this.inbox.push(line);
    this.waiting.delete(key);
  }
}

export class Worker {
  private readonly runs = new Map<string, Run>();
  private readonly instance = crypto.randomUUID();
  private socket: WebSocket | undefined;
  private welcome = false; // the connection may carry lines of runs
  private draining = false;

  constructor(private readonly url: string, private readonly name: string, private readonly secret: string,
    private readonly agents: Record<string, Agent>, private readonly options: Options = {}) {}

  /** Comes back whenever the connection breaks; returns when it is drained and its last run has ended. */
  async serve(): Promise<void> {
    for (let pause = 100; !this.draining || this.runs.size > 0; pause = Math.min(2 * pause, 10_000)) {
      if (await this.connect()) pause = 100;
      this.welcome = false;
      await sleep(pause * Math.random());
    }
  }

  /** Takes no more runs. */
  drain(): void {
    this.draining = true;
    this.send('{"type":"drain"}');
  }

  private connect(): Promise<boolean> { // resolves at its end: whether it was of use
    return new Promise((resolve) => {
      const socket = (this.socket = new (this.options.WebSocket ?? WebSocket)(this.url, "holdfast.worker.v1"));
      const end = () => {
        clearTimeout(silence);
        socket.onmessage = socket.onclose = socket.onerror = () => undefined;
        socket.close();
        resolve(this.welcome);
      };
      let silence = setTimeout(end, SILENT_MS);
      const { name: worker, secret, instance, options: { runs = 4 } } = this;
      const hello = { type: "hello", worker, secret, instance, agents: Object.keys(this.agents), runs };
      const open = () => Object.fromEntries([...this.runs].map(([id, run]) => [id, run.received]));
      socket.onopen = () => socket.send(JSON.stringify({ ...hello, open: open() }));
      socket.onclose = socket.onerror = end;
      socket.onmessage = ({ data }) => {
        clearTimeout(silence);
        silence = setTimeout(end, SILENT_MS);
        for (const line of String(data).split("\n").filter(Boolean)) this.take(JSON.parse(line) as Line);
        if (this.draining && this.runs.size === 0) end();
      };
    });
  }

  /** @internal */ isFull(run: Run): boolean {
    return this.runs.get(run.id) === run && !(this.welcome && this.socket!.bufferedAmount < MOST_BUFFERED);
  }

  /** @internal */ send(text: string): void {
    if (this.welcome && this.socket!.readyState === 1) this.socket!.send(text); // else the next connection carries it
  }

  private take(line: Line): void {
    const run = this.runs.get(line.run);
    if (line.type === "welcome") this.goOn(line["open"] as Record<string, number>);
    else if (line.type === "drain") this.draining = true;
    else if (line.type === "error") console.warn(`the gateway says: ${String(line["message"])}`);
    else if (line.type === "ack" && run) run.unsaved = run.unsaved.filter(({ n }) => n > line.n);
    else if (line.type === "cancel" && run) run.stop.abort();
    else if (line.type === "gone" && run) this.forget(run);
    else if (line.type === "run" || (run && line.n)) {
      const at = run ?? new Run(this, this.agents[line["agent"] as string]!, line);
      this.runs.set(at.id, at).get(at.id)!.take(line);
      this.send(JSON.stringify({ type: "ack", run: at.id, n: at.received }));
    }
  }

  private forget(run: Run): void {
    this.runs.delete(run.id);
    run.stop.abort();
  }

  private goOn(saved: Record<string, number>): void {
    this.welcome = true;
    for (const run of this.runs.values()) {
      if (!(run.id in saved)) this.forget(run); // it is over
      run.unsaved = run.unsaved.filter(({ n }) => n > (saved[run.id] ?? Infinity));
      for (const { text } of run.unsaved) this.send(text);
    }
    if (this.draining) this.drain();
  }
}
