/** worker.ts -- the SharedWorker that runs hubs: one for each place that a tab names. */

import { lead } from "./hub.js";

const led = new Set<string>();

Object.assign(globalThis, {
  onconnect({ ports }: MessageEvent) {
    ports[0]!.onmessage = ({ data: place }) => {
      if (!led.has(place)) lead(place);
      led.add(place);
    };
  },
});
