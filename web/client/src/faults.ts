/** faults.ts -- injected faults: a WebSocket that misbehaves, to see how a page handles it. */

export interface Faults {
  /** Cuts each connection after that many lines from the gateway. */
  dropAfter?: number | undefined;
  /** Goes silent after that many lines. */
  freezeAfter?: number | undefined;
  /** Delays every message, both ways. */
  latencyMs?: number | undefined;
  /** An additional random delay, up to this. */
  jitterMs?: number | undefined;
  /** That many attempts in a row fail, after each cut and at the start. */
  refuse?: number | undefined;
  /** The code of the cut; 1006 by default. */
  closeCode?: number | undefined;
}

/** `?fault=dropAfter:120,latencyMs:200` */
export function faultsOf(search: string): Faults | null {
  const text = new URLSearchParams(search).get("fault");
  if (!text) return null;
  return Object.fromEntries(
    text.split(",").map((each) => {
      const [name, value] = each.split(":");
      return [name, Number(value)];
    }),
  );
}

/** A WebSocket with these faults; the plain one when there are none. */
export function faulty(faults: Faults | boolean, Plain: typeof WebSocket): typeof WebSocket {
  const wanted = faults === true ? faultsOf(globalThis.location?.search ?? "") : faults;
  if (!wanted) return Plain;
  const {
    dropAfter,
    freezeAfter,
    latencyMs = 0,
    jitterMs = 0,
    refuse = 0,
    closeCode = 1006,
  } = wanted;
  let refused = 0;

  class FaultySocket {
    onopen: (() => void) | null = null;
    onmessage: ((event: { data: string }) => void) | null = null;
    onclose: ((event: { code: number }) => void) | null = null;
    onerror: (() => void) | null = null;
    #socket: WebSocket | undefined;
    #lines = 0;
    #line: Promise<void> = Promise.resolve(); // messages on their way, in order

    constructor(url: string, protocol: string) {
      if (refused++ < refuse) {
        setTimeout(() => this.#lose(closeCode), latencyMs);
        return;
      }
      this.#socket = new Plain(url, protocol);
      this.#socket.onopen = () => this.#later(() => this.onopen?.());
      this.#socket.onmessage = ({ data }) => this.#later(() => this.#read(String(data)));
      this.#socket.onclose = ({ code }) => this.#later(() => this.#lose(code));
      this.#socket.onerror = () => this.onerror?.();
    }

    send(text: string): void {
      this.#later(() => this.#socket?.readyState === 1 && this.#socket.send(text));
    }

    close(): void {
      this.#socket?.close();
    }

    #read(data: string): void {
      const lines = data.split("\n").filter(Boolean);
      const most = Math.min(dropAfter ?? Infinity, freezeAfter ?? Infinity) - this.#lines;
      this.#lines += lines.length;
      const told = lines.slice(0, Math.max(0, most));
      if (told.length > 0) this.onmessage?.({ data: told.join("\n") });
      if (dropAfter === undefined || this.#lines < dropAfter) return;
      refused = 0;
      this.#socket!.onclose = null;
      this.#socket!.close();
      this.#lose(closeCode);
    }

    #lose(code: number): void {
      const { onclose } = this;
      this.onclose = this.onmessage = null;
      onclose?.({ code });
    }

    #later(step: () => void): void {
      const ms = latencyMs + Math.random() * jitterMs;
      if (ms === 0) return step();
      const due = new Promise((resolve) => setTimeout(resolve, ms));
      this.#line = this.#line.then(() => due).then(step);
    }
  }
  return FaultySocket as unknown as typeof WebSocket;
}
