// network.mjs -- a network between browser and gateway that can be cut: a TCP proxy.

import { once } from "node:events";
import net from "node:net";

export class Network {
  #connections = new Set();
  #server = null;
  #isCut = false;
  port = 0;
  /** So many more bytes go to the browser; then it waits for `release`. */
  #allowance = Infinity;
  /** So many bytes go to the reader at a time; 0: as they come. */
  #piece = 0;
  /** After so many more it is cut. */
  #fuse = Infinity;

  /** @param {() => number} upstream the gateway's port, asked anew for each connection */
  constructor(upstream) {
    this.upstream = upstream;
  }

  /** Carries connections; after a cut, on the same port as before. */
  async restore() {
    this.#isCut = false;
    this.#fuse = Infinity;
    if (this.#server) return;
    this.#server = net.createServer((near) => this.#join(near));
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.port = this.#server.address().port;
  }

  #join(near) {
    if (this.#isCut) return near.on("error", () => {}).resetAndDestroy();
    const far = net.connect(this.upstream(), "127.0.0.1");
    const connection = { near, far, frozen: false, deaf: false };
    this.#connections.add(connection);
    const end = () => {
      this.#connections.delete(connection);
      near.destroy();
      far.destroy();
    };
    near.on("data", (bytes) => connection.frozen || far.write(bytes));
    far.on("data", (bytes) => {
      if (connection.frozen || connection.deaf) return;
      if (this.#piece) return void this.#trickle(connection, bytes);
      near.write(bytes);
      this.#allowance -= bytes.length;
      if (this.#allowance <= 0) far.pause();
    });
    for (const from of [near, far]) {
      from.setNoDelay(true);
      from.on("error", end);
      from.on("close", () => connection.frozen || end());
    }
  }

  async #trickle({ near, far }, bytes) {
    far.pause();
    for (let at = 0; at < bytes.length && !near.destroyed; ) {
      const some = bytes.subarray(at, at + Math.min(this.#piece, this.#fuse));
      near.write(some);
      at += some.length;
      this.#fuse -= some.length;
      if (this.#fuse === 0) return void (await this.cut());
      await new Promise(setImmediate);
    }
    far.resume();
  }

  /** So many bytes go to the reader at a time, so that a cut may come between any two. */
  trickle(bytes) {
    this.#piece = bytes;
  }

  /** A trickle is cut when so many more bytes have gone to the reader.  Tells whether it is.
   * @param {number} bytes */
  cutAfter(bytes) {
    this.#fuse = bytes;
    return () => this.#isCut;
  }

  /** Resets every connection, and new ones as they come.  It listens on: else another program could get the port. */
  async cut() {
    this.#isCut = true;
    const all = [...this.#connections];
    this.#connections.clear();
    await Promise.all(
      all.map(({ near, far }) => {
        const closed = near.closed || new Promise((resolve) => near.once("close", resolve));
        near.resetAndDestroy();
        far.destroy();
        return closed;
      }),
    );
  }

  /** Lets nothing through any more, and tells nobody.  New connections work. */
  freeze() {
    for (const connection of this.#connections) connection.frozen = true;
  }

  /** Lets nothing through to the browser any more; the gateway still hears it. */
  deafen() {
    for (const connection of this.#connections) connection.deaf = true;
  }

  /** Lets so many bytes through to the browser, and then none, until `release`. */
  hold(bytes) {
    this.#allowance = bytes;
  }

  release() {
    this.#allowance = Infinity;
    for (const { far } of this.#connections) far.resume();
  }

  async close() {
    if (!this.#server) return;
    await this.cut();
    const closed = once(this.#server, "close");
    this.#server.close();
    await closed;
  }
}
