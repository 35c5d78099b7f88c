/**
 * connection.js -- one connection to the gateway, kept up: hello, reconnecting, finding dead sockets.
 *
 * Every line from the gateway goes to `onLine(line, request)`, in order and synchronously; `request`
 * is what the line answers, if it answers something.  What is sent with `send` is lost with the
 * connection: `onWelcome` is where the page says again what it wants.  What is sent with `ensure` is
 * kept and said again until it is answered, so it must be safe to repeat.
 */

const SUBPROTOCOL = "holdfast.v1";
const BACKOFF_MS = 500; // the first wait is a random part of this, each further one of twice as much
const BACKOFF_CAP_MS = 30_000;
const STEADY_MS = 10_000; // a connection that lasted so long makes the next wait a first one
const WELCOME_MS = 10_000; // from opening the socket to welcome
const PROBE_MS = 4_000; // for anything at all to come after a ping
const QUIET_MS = 25_000; // a visible page that has heard nothing for so long asks

const CLOSE_GOING_AWAY = 1001;
const CLOSE_INVALID_TEXT = 1007;
const CLOSE_MALFORMED = 1008;
const CLOSE_TOO_LARGE = 1009;
const CLOSE_UNAUTHORIZED = 4401;
const CLOSE_FLOOD = 4429;

/** @typedef {"connecting"|"live"|"waiting"|"offline"|"closed"} State */

/** @typedef {{owner: string, token: string}} Guest */

/** The gateway's `error` line, as the reason why an `ensure` was refused. */
export class Refusal extends Error {
  /** @param {{code: string, message: string, retry_after_ms?: number}} line */
  constructor(line) {
    super(line.message);
    this.code = line.code;
    this.retryAfterMs = line.retry_after_ms;
  }
}

/** A line that is no JSON is the gateway's fault; it shall not cost those that came with it. */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    console.error(`not a line of ${SUBPROTOCOL}: ${text}`, error);
    return { type: "" };
  }
}

export class Connection {
  /** @type {State} */
  state = "closed";
  /** When the next attempt is due, for states waiting and offline. */
  retryAt = 0;
  /** Why it is closed, for people. */
  reason = "";
  /** The last `welcome`. */
  welcome = null;

  #url;
  #guest;
  #handlers;
  #socket = null;
  #timer = 0; // of the state: welcome overdue, or next attempt
  #probe = 0;
  #heardAt = 0;
  #welcomedAt = 0;
  #attempts = 0;
  #lastId = 0;
  #pending = new Map(); // id -> {request, kept, resolve, reject}
  #said = {}; // of this socket: helloId, goawayMs, retryMs, refused, unknownGuest

  /**
   * @param {string} url
   * @param {{get(): Guest|null, set(guest: Guest|null): void}} guest who this browser is, kept
   * @param {{onLine(line: object, request?: object): void, onWelcome(line: object): void,
   *          onState(connection: Connection): void}} handlers
   */
  constructor(url, guest, handlers) {
    this.#url = url;
    this.#guest = guest;
    this.#handlers = handlers;
  }

  start() {
    addEventListener("online", () => this.wake());
    addEventListener("offline", () => this.#offline());
    addEventListener("pageshow", (event) => event.persisted && this.wake());
    addEventListener("storage", () => {
      if (this.state === "live" && this.#isSomebodyElse()) this.#restart();
    });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.wake();
    });
    setInterval(() => this.#listen(), 5_000);
    this.#connect();
  }

  /** The world may have changed: come back at once, or find out whether the socket still lives. */
  wake() {
    if (this.state === "waiting" || this.state === "offline") this.#connect();
    else if (this.state === "live") this.#ask();
  }

  /** The user says so: also after a close that ends all attempts. */
  retry() {
    this.#attempts = 0;
    if (this.state !== "live" && this.state !== "connecting") this.#connect();
  }

  /** Sends a request if there is a connection; whether there was one. */
  send(request) {
    if (this.state !== "live") return false;
    this.#write(this.#newId(), { request, kept: false });
    return true;
  }

  /**
   * Sends a request, now and after each reconnect, until it is answered.
   * @returns {Promise<object>} the reply; rejects with a Refusal
   */
  ensure(request) {
    return new Promise((resolve, reject) => {
      const id = this.#newId();
      const entry = { request, kept: true, resolve, reject };
      if (this.state === "live") this.#write(id, entry);
      else this.#pending.set(id, entry);
    });
  }

  #newId() {
    return String(++this.#lastId);
  }

  #write(id, entry) {
    const line = JSON.stringify({ ...entry.request, id });
    const most = this.welcome.limits?.message_bytes ?? Infinity;
    if (new TextEncoder().encode(line).length > most) {
      this.#pending.delete(id);
      entry.reject?.(new Refusal({ code: "too_large", message: `longer than ${most} bytes` }));
      return;
    }
    this.#pending.set(id, entry);
    this.#socket.send(line);
  }

  // ---- a socket's life

  #connect() {
    clearTimeout(this.#timer);
    const socket = new WebSocket(this.#url, SUBPROTOCOL);
    const current = () => socket === this.#socket;
    this.#socket = socket;
    this.#said = {};
    this.#timer = setTimeout(() => this.#lose(), WELCOME_MS);
    socket.onopen = () => current() && this.#hello();
    socket.onmessage = ({ data }) => current() && this.#read(data);
    socket.onclose = ({ code }) => current() && this.#closed(code);
    this.#setState("connecting");
  }

  #hello() {
    this.#said.helloId = this.#newId();
    this.#said.token = this.#guest.get()?.token;
    const hello = {
      type: "hello",
      id: this.#said.helloId,
      token: this.#said.token,
      client: { name: "holdfast-chat", version: "1" },
    };
    this.#socket.send(JSON.stringify(hello));
  }

  #read(data) {
    this.#heardAt = Date.now();
    clearTimeout(this.#probe);
    this.#probe = 0;
    const socket = this.#socket;
    for (const line of data.split("\n")) {
      if (line !== "" && socket === this.#socket) this.#take(parse(line));
    }
  }

  #take(line) {
    if (line.type === "welcome") return this.#welcomed(line);
    if (line.type === "goaway") this.#said.goawayMs = line.retry_after_ms;
    if (line.type === "error") this.#note(line);

    const entry = this.#pending.get(line.id);
    this.#pending.delete(line.id);
    this.#handlers.onLine(line, entry?.request);
    if (line.type === "error") entry?.reject?.(new Refusal(line));
    else entry?.resolve?.(line);
  }

  #note(line) {
    if (line.retry_after_ms !== undefined) this.#said.retryMs = line.retry_after_ms;
    if (line.code !== "unauthorized") return;
    this.#said.unknownGuest = line.message.includes("unknown guest");
    if (line.id === this.#said.helloId) this.#said.refused = line.message;
  }

  #welcomed(line) {
    if (this.state === "live") return; // the answer to a second hello
    this.welcome = line;
    if (this.#isSomebodyElse()) return this.#restart();
    if (line.token) this.#guest.set({ owner: line.owner, token: line.token });
    clearTimeout(this.#timer);
    this.#welcomedAt = Date.now();
    const kept = [...this.#pending];
    this.#setState("live");
    this.#handlers.onWelcome(line);
    for (const [id, entry] of kept) this.#write(id, entry);
  }

  /** Two tabs that both came without a token: the one that was kept last is who they both are. */
  #isSomebodyElse() {
    const kept = this.#guest.get();
    const brought = kept?.token === this.#said.token;
    return this.welcome.token && kept && !brought && kept.owner !== this.welcome.owner;
  }

  #restart() {
    this.#abandon();
    this.#connect();
  }

  #abandon() {
    const socket = this.#socket;
    this.#socket = null; // its events count no more; the handshake of a dead socket takes minutes
    clearTimeout(this.#probe);
    this.#probe = 0;
    socket?.close();
    for (const [id, entry] of this.#pending) if (!entry.kept) this.#pending.delete(id);
  }

  #lose() {
    this.#closed(0);
  }

  // ---- what a close asks for

  #closed(code) {
    const said = this.#said;
    const lasted = this.state === "live" ? Date.now() - this.#welcomedAt : 0;
    this.#abandon();
    if (lasted >= STEADY_MS) this.#attempts = 0;

    switch (code) {
      case CLOSE_INVALID_TEXT:
      case CLOSE_MALFORMED:
        return this.#end(`The gateway does not understand this page (${code}).`);
      case CLOSE_UNAUTHORIZED:
        return this.#unauthorized(said);
      case CLOSE_TOO_LARGE:
        this.#refuseKept({ code: "too_large", message: "too long for the gateway" });
        return this.#wait(this.#backoff());
      case CLOSE_GOING_AWAY:
        if (said.goawayMs === undefined) return this.#wait(this.#backoff());
        return this.#wait(Math.random() * said.goawayMs);
      case CLOSE_FLOOD:
        return this.#wait(Math.max(said.retryMs ?? 0, this.#backoff()));
      default:
        return this.#wait(this.#backoff());
    }
  }

  #unauthorized(said) {
    if (said.unknownGuest) {
      if (this.#guest.get()?.token === said.token) this.#guest.set(null);
      return this.#wait(this.#backoff());
    }
    // Without a refusal of our hello it came too late, or the token has run out: the next one tells.
    if (said.refused === undefined) return this.#wait(this.#backoff());
    return this.#end(`Not signed in: ${said.refused}.`);
  }

  #refuseKept(error) {
    for (const entry of this.#pending.values()) entry.reject?.(new Refusal(error));
    this.#pending.clear();
  }

  #backoff() {
    const most = Math.min(BACKOFF_CAP_MS, BACKOFF_MS * 2 ** this.#attempts++);
    return Math.random() * most;
  }

  #wait(ms) {
    clearTimeout(this.#timer);
    this.retryAt = Date.now() + ms;
    this.#timer = setTimeout(() => this.#connect(), ms);
    // A guess of the browser, and the gateway may be on this very machine: attempts go on.
    this.#setState(navigator.onLine ? "waiting" : "offline");
  }

  #end(reason) {
    clearTimeout(this.#timer);
    this.reason = reason;
    this.#setState("closed");
  }

  #setState(state) {
    this.state = state;
    this.#handlers.onState(this);
  }

  // ---- half-open sockets

  #offline() {
    if (this.state === "waiting") this.#setState("offline");
    else if (this.state === "live") this.#ask();
  }

  #listen() {
    const quiet = Date.now() - this.#heardAt;
    if (this.state === "live" && !document.hidden && quiet >= QUIET_MS) this.#ask();
  }

  /** A ping, and something must come soon: a browser never tells of a socket that died in silence. */
  #ask() {
    if (this.#probe !== 0) return;
    this.#probe = setTimeout(() => this.#lose(), PROBE_MS);
    this.#socket.send(JSON.stringify({ type: "ping", id: this.#newId() }));
  }
}
