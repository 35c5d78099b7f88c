/** @holdfast/client/watch -- the events of all of the owner's tasks, each once, over any number of connections. */

import type { Client } from "./client.js";
import { HoldfastError } from "./errors.js";
import { isTerminal, type TaskEvent, type TaskSummary } from "./wire.js";

export interface WatchOptions {
  /** From `onCursor` of an earlier watch; without it: all live tasks, and all that come. */
  cursor?: string | undefined;
  /** Live text comes joined, at most once in so many milliseconds. */
  rollupMs?: number | undefined;
  /** Each event of each task, once and in order within its task. */
  onEvent: (event: TaskEvent, task: TaskSummary) => void;
  /** Holds for all events before it: keep it, and a later watch goes on behind them. */
  onCursor?: ((cursor: string) => void) | undefined;
  /** The watch is over: its cursor was refused, or the client is closed. */
  onEnd?: ((error: HoldfastError) => void) | undefined;
}

type Known = { task: TaskSummary; last: number; ended: number }; // ended: the connection that told so

/**
 * Begins, and returns a function that ends it.  A client has one watch, and a connection of its own
 * (`share: false`): tabs that share one would end each other's.
 * Throws where there is one already, and where tabs share it.
 */
export function watchEvents(client: Client, options: WatchOptions): () => void {
  if (client.shares)
    throw new HoldfastError("unsupported", "a watch needs a connection of its own: connect(url, { share: false })");
  if (client.watcher) throw new HoldfastError("conflict", "this client has a watch already");
  const { onEvent, onCursor, onEnd, rollupMs } = options;
  const known = new Map<string, Known>();
  let cursor = options.cursor;
  let connections = 0;
  const end = () => {
    if (client.watcher === watcher) client.watcher = undefined;
  };
  const ask = () => {
    connections++;
    const fields = { events: true, ...(cursor && { cursor }), ...(rollupMs && { rollup_ms: rollupMs }) };
    client.request("watch", fields, { kept: false }).catch((error: HoldfastError) => {
      if (client.watcher !== watcher || error.code === "connection_lost") return;
      end();
      onEnd?.(error);
    });
  };
  const watcher = {
    welcomed: ask,
    take(line: { type: string }) {
      if (line.type === "cursor") {
        cursor = (line as unknown as { cursor: string }).cursor;
        // Those that ended on this connection never come again; others may.
        for (const [id, { ended }] of known) if (ended === connections) known.delete(id);
        onCursor?.(cursor);
      } else if (line.type === "following") {
        const { task, after, head, epoch } = line as unknown as Following;
        const one = known.get(task.task_id) ?? { task, last: 0, ended: 0 };
        // Retention has removed what was before; or the store has lost its end.
        if (after > one.last || (epoch && head < one.last)) one.last = after;
        known.set(task.task_id, one);
      } else {
        const event = line as unknown as TaskEvent;
        const one = known.get(event.task_id);
        if (!one) return;
        if (isTerminal(event)) one.ended = connections;
        if (event.seq <= one.last) return;
        one.last = event.seq;
        onEvent(event, one.task);
      }
    },
  };
  client.watcher = watcher;
  if (client.state === "live") ask();
  return () => {
    if (client.watcher !== watcher) return;
    end();
    if (client.state === "live") client.request("watch", { events: false }, { kept: false }).catch(() => {});
  };
}

interface Following {
  task: TaskSummary;
  after: number;
  head: number;
  epoch?: number;
}
