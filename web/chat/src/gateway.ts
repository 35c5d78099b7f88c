/** gateway.ts -- the page's one connection, to the gateway that served it. */

import { connect } from "@holdfast/client";
import { broughtBy } from "@holdfast/client/sharing";
import { diagnose } from "@holdfast/client/trouble";
import { link } from "./rights";
import { WireLog } from "./wire";

const url = new URL("v1/ws", document.baseURI);
url.protocol = url.protocol.replace("http", "ws");

/** The address of the page itself. */
export const home = new URL(".", document.baseURI).href;

/** The address of the connection. */
export const address = url.href;

const TOKEN = "holdfast.token";

function kept(storage: () => Storage): string {
  try {
    return storage().getItem(TOKEN) ?? "";
  } catch {
    return ""; // storage is forbidden
  }
}

/** The token that came from another device, which this browser keeps; "" means none. */
export const handedToken = () => kept(() => localStorage);

/** A token of this tab: that of a link, one that was pasted, or handed over; "" means none. */
export const keptToken = (): string => link?.token || kept(() => sessionStorage) || handedToken();

/** Uses this token from now on, in this tab; "" means none. */
export function keepToken(token: string) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
  location.reload();
}

/** Uses another device's token in this browser from now on; "" returns to its own. */
export function keepHanded(token: string) {
  sessionStorage.removeItem(TOKEN);
  if (token) localStorage.setItem(TOKEN, token);
  else localStorage.removeItem(TOKEN);
  history.replaceState(null, "", location.pathname + location.search);
  location.reload();
}

/** The token's subject, unverified: tabs with different ones share nothing. */
function subjectOf(token: string): string {
  try {
    const [, claims = ""] = token.split(".");
    return String(JSON.parse(atob(claims.replaceAll("-", "+").replaceAll("_", "/"))).sub);
  } catch {
    return token; // not a JWT: the gateway will say so
  }
}

const token = keptToken();

/** The lines of the inspector's connection, which it shares with nobody so that it sees
 * everything. */
export const wire = new WireLog();
const seesAll = { share: false, debug: (line: string) => wire.add(line) };

export const gateway = connect(url, {
  ...(location.pathname.endsWith("/inspector.html") && seesAll),
  client: { name: "holdfast-chat", version: "1" },
  diagnose, // the gateway that is down cannot serve it
  faults: new URLSearchParams(location.search).has("fault"),
  ...(token && { token, user: link ? `link ${token}` : subjectOf(token) }),
});

// A link, and the code of another device, are for a page that begins anew.
const brings = (address: string) => Object.keys(broughtBy(address)).length > 0;
addEventListener("hashchange", ({ oldURL, newURL }) => {
  if (brings(oldURL) || brings(newURL)) location.reload();
});
