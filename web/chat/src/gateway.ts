/** gateway.ts -- the page's one connection, to the gateway that served it. */

import { connect } from "@holdfast/client";
import { broughtBy } from "@holdfast/client/sharing";
import { diagnose } from "@holdfast/client/trouble";
import { keptToken, subjectOf } from "./identity";
import { link } from "./rights";
import { WireLog } from "./wire";

const url = new URL("v1/ws", document.baseURI);
url.protocol = url.protocol.replace("http", "ws");

/** The address of the page itself. */
export const home = new URL(".", document.baseURI).href;

/** The address of the connection. */
export const address = url.href;

const token = keptToken();

/** "" without a token.  Tabs with different ones share nothing. */
export const user = link ? `link ${token}` : token ? subjectOf(token) : "";

/** The client stores what it must remember under names that begin with this. */
export const place = `${address} ${user}`;

/** The lines of the inspector's connection, which it shares with nobody so that it sees
 * everything. */
export const wire = new WireLog();
const seesAll = { share: false, debug: (line: string) => wire.add(line) };

export const gateway = connect(url, {
  ...(location.pathname.endsWith("/inspector.html") && seesAll),
  client: { name: "holdfast-chat", version: "1" },
  diagnose, // the gateway that is down cannot serve it
  faults: new URLSearchParams(location.search).has("fault"),
  ...(token && { token, user }),
});

// A link, and the code of another device, are for a page that begins anew.
const brings = (address: string) => Object.keys(broughtBy(address)).length > 0;
addEventListener("hashchange", ({ oldURL, newURL }) => {
  if (brings(oldURL) || brings(newURL)) location.reload();
});
