/** ask.ts -- requests of the protocol for which the client has no types. */

import { gateway } from "./gateway";

/** One that makes something is sent once: `kept` is false, so that a cut makes no second one. */
export const ask = <T>(verb: string, fields: object, kept = true) =>
  gateway.request(verb as "ping", fields, { kept }) as unknown as Promise<T>;
