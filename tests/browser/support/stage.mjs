// stage.mjs -- the place where puppet agents (fixtures/puppet_agent.py) wait to be told what to do.

import { once } from "node:events";
import net from "node:net";
import { createInterface } from "node:readline";

const WAIT_MS = 60_000; // for what must come at once; a machine may be busy

/** A list that can be waited on; each item is taken once. */
class Queue {
  #items = [];
  #takers = [];

  /** @param {string} of what it holds, in words */
  constructor(of) {
    this.of = of;
  }

  put(item) {
    const taker = this.#takers.shift();
    if (taker) taker(item);
    else this.#items.push(item);
  }

  take() {
    if (this.#items.length > 0) return Promise.resolve(this.#items.shift());
    return new Promise((resolve, reject) => {
      const overdue = setTimeout(() => reject(new Error(`no ${this.of} has come`)), WAIT_MS).unref();
      this.#takers.push((item) => {
        clearTimeout(overdue);
        resolve(item);
      });
    });
  }
}

/** One running agent. */
class Puppet {
  /** Lines from the gateway, parsed; the first is `run`. */
  heard = new Queue("line from the gateway");
  #socket;

  constructor(socket) {
    this.#socket = socket;
    socket.on("error", () => {}); // killed
    createInterface({ input: socket, crlfDelay: Infinity })
      .on("line", (line) => this.heard.put(JSON.parse(line)))
      .on("error", () => {});
  }

  tell(line) {
    this.#socket.write(JSON.stringify(line) + "\n");
  }

  emit(event, data) {
    this.tell({ event, data });
  }

  say(...texts) {
    for (const text of texts) this.emit("token", { text });
  }

  exit(status = 0) {
    this.tell({ exit: status });
  }
}

export class Stage {
  #puppets = new Queue("agent");
  #sockets = new Set();
  #server = net.createServer(async (socket) => {
    this.#sockets.add(socket.on("close", () => this.#sockets.delete(socket)));
    const puppet = new Puppet(socket);
    puppet.run = await puppet.heard.take().catch(() => null);
    if (puppet.run) this.#puppets.put(puppet); // else it was killed before it heard anything
  });

  async open() {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.port = this.#server.address().port;
  }

  /** The next agent that starts; `run` is what it was told. */
  puppet() {
    return this.#puppets.take();
  }

  close() {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
