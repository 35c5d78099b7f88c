/** gateway.ts -- the page's one connection, to the gateway that served it. */

import { connect } from "@holdfast/client";

const url = new URL("v1/ws", document.baseURI);
url.protocol = url.protocol.replace("http", "ws");

export const gateway = connect(url, {
  client: { name: "holdfast-chat", version: "1" },
  faults: new URLSearchParams(location.search).has("fault"),
});
