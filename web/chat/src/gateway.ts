/** gateway.ts -- the page's one connection, to the gateway that served it. */

import { connect } from "@holdfast/client";
import { diagnose } from "@holdfast/client/trouble";
import { WireLog } from "./wire";

const url = new URL("v1/ws", document.baseURI);
url.protocol = url.protocol.replace("http", "ws");

/** The address of the connection. */
export const address = url.href;

const TOKEN = "holdfast.token";

/** A token that was pasted into this tab; "" means none. */
export function keptToken(): string {
  try {
    return sessionStorage.getItem(TOKEN) ?? "";
  } catch {
    return ""; // storage is forbidden
  }
}

/** Uses this token from now on, in this tab; "" means none. */
export function keepToken(token: string) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
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
  ...(token && { token, user: subjectOf(token) }),
});
