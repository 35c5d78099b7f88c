/**
 * @holdfast/client/trouble -- why it does not connect.  Browsers tell a page only 1006 about a failed attempt;
 * plain requests to the same place distinguish the usual causes.
 */

export type Cause = "origin" | "gateway" | "route" | "tls" | "path" | "proxy" | "token" | "unknown";

export interface Trouble {
  /**
   * `origin`: the gateway does not accept pages from here.  `gateway`: nothing answers there.
   * `route`: there is no network; outside of browsers also: no such name.  `tls`: ws instead of wss, or the reverse, or a
   * bad certificate.  `path`: it answers, but not at this path.  `proxy`: something in between
   * passes no WebSockets.  `token`: there is no valid one.  `unknown` until it was examined, after
   * the third attempt.
   */
  cause: Cause;
  /** In a sentence, with what to do. */
  message: string;
  /** From the last close; 0 when nothing was heard in time, 1006 when it was a cut, not a close. */
  code: number;
  /** The reason from the other side, or from the socket. */
  reason: string;
  /** When it failed last. */
  at: number;
  /** How many failed in a row. */
  attempts: number;
}

const PATH = "/v1/ws";
const PATIENCE_MS = 5_000;

const ROUTE = /ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT/;
const TLS = /CERT|SSL|TLS|EPROTO/;

/** A request whose answer may be unreadable: "" for an answer, otherwise the platform's message. */
async function reach(url: string, mode: RequestMode): Promise<string> {
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    // A browser sends the page's origin in a POST, but not in a GET that nobody may read.
    const method = mode === "no-cors" ? "POST" : "GET";
    await fetch(url, { mode, method, signal, credentials: "omit", cache: "no-store" });
    return "";
  } catch (error) {
    const { cause, message, name } = error as Error & { cause?: { code?: string } };
    return name === "TimeoutError" ? "ETIMEDOUT" : (cause?.code ?? (message || "failed"));
  }
}

/** Finds out what keeps a client of this page, or process, from the gateway at `url`. */
export async function diagnose(url: string): Promise<Pick<Trouble, "cause" | "message">> {
  const { protocol, host, pathname } = new URL(url);
  const secure = /^(wss|https):$/.test(protocol);
  const at = (scheme: string, path: string) => `${scheme}://${host}${path}`;
  const root = pathname.endsWith(PATH) ? pathname : PATH;
  // Pages of another origin may read only the API; all others get a resource that exists.
  const isForeign = globalThis.location && globalThis.location.host !== host;
  const here = at(secure ? "https" : "http", isForeign ? root : root.replace(PATH, "/healthz"));
  const said = await reach(here, "cors");
  if (said && isForeign && (await reach(here, "no-cors")) === "") {
    // May the page not read it, or has the network come back in between?
    if ((await reach(here, "cors")) === "") return { cause: "unknown", message: `${host} answers again` };
    const { origin } = globalThis.location;
    return {
      cause: "origin",
      message: `${host} accepts no pages of ${origin}: add it to "origins" in its configuration`,
    };
  }
  if (said) {
    if (globalThis.navigator?.onLine === false || ROUTE.test(said)) {
      return { cause: "route", message: `no way to ${host}: no network, or no such name` };
    }
    const isHttps = globalThis.location?.protocol === "https:";
    // Pages from here may be accepted, and then read it; an answer that they may not read is none to them.
    const scheme = secure ? "http" : "https";
    const other = isHttps ? said : (await reach(at(scheme, root), "cors")) && (await reach(at(scheme, root), "no-cors"));
    if (TLS.test(said + other) || other === "") {
      const hint = secure ? "its certificate is not trusted, or it has no TLS" : "TLS is wanted: use wss://";
      return { cause: "tls", message: `${host} cannot be talked to: ${hint}` };
    }
    // Browsers hide why: a name that nobody has and a bad certificate look the same.
    const others = globalThis.location ? `, is the name right${secure ? ", its certificate trusted" : ""}` : "";
    return { cause: "gateway", message: `nothing answers at ${host}: is it running, on this port${others}?` };
  }
  if (pathname !== root) {
    return { cause: "path", message: `${host} answers, but not at ${pathname}: a gateway's path is ${PATH}` };
  }
  return {
    cause: "proxy",
    message: `${host} opens no WebSocket: is it a gateway, and does its proxy pass on "Upgrade"?`,
  };
}
