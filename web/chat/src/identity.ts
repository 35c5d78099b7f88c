/**
 * identity.ts -- whose page this is: a token that was pasted here, that a link brought, or another device.  Whoever
 * signs out is signed out in every tab: those that are open are told, those that are opened again look.
 */

import { names, ofBrowser, ofTab, read, write } from "./kept";
import { link } from "./rights";

const TOKEN = "holdfast.token";
const SINCE = "holdfast.token.since"; // when it was pasted
const OWNER = "holdfast.owner"; // who was welcomed last
const SEEN = "holdfast.owner.since"; // when this page was
const OUT = "holdfast.signed-out."; // by user, when

/** The token that came from another device, which this browser keeps; "" means none. */
export const handedToken = () => read(ofBrowser, TOKEN);

/** A token of this tab: that of a link, one that was pasted, or handed over; "" means none. */
export const keptToken = (): string => link?.token || read(ofTab, TOKEN) || handedToken();

/** Uses this token from now on, in this tab; what somebody else typed in it is not for its user. */
export function keepToken(token: string) {
  const before = keptToken();
  if (before !== "" && subjectOf(before) !== subjectOf(token)) forget();
  write(ofTab, TOKEN, token);
  write(ofTab, SINCE, String(Date.now()));
  location.reload();
}

/** Uses another device's token in this browser from now on. */
export function keepHanded(token: string) {
  write(ofTab, TOKEN, "");
  write(ofBrowser, TOKEN, token);
  history.replaceState(null, "", location.pathname + location.search);
  location.reload();
}

/** The token's subject, unverified: tabs with different ones share nothing. */
export function subjectOf(token: string): string {
  try {
    const [, claims = ""] = token.split(".");
    return String(JSON.parse(atob(claims.replaceAll("-", "+").replaceAll("_", "/"))).sub);
  } catch {
    return token; // not a JWT: the gateway will say so
  }
}

/** FNV-1a: the next person at this computer need not read who was here. */
export function shortOf(user: string): string {
  let hash = 0x811c9dc5;
  for (const sign of user) hash = Math.imul(hash ^ sign.codePointAt(0)!, 0x01000193);
  return (hash >>> 0).toString(36);
}

const markOf = (user: string) => OUT + shortOf(user);

/** The user of this tab, also before the gateway has said so; "" means nobody yet. */
export const userOfTab = () => (keptToken() ? subjectOf(keptToken()) : read(ofTab, OWNER));

/** Forgets all that this tab remembers, the token among it, but for these. */
function forget(...but: string[]) {
  for (const name of names(ofTab, "holdfast.")) if (!but.includes(name)) write(ofTab, name, "");
}

const isGuest = (owner: string) => owner.startsWith("guest-");

/** True when the tab was somebody else's, by a cookie perhaps: it has forgotten what that one typed. */
export function changesHands(owner: string): boolean {
  const before = read(ofTab, OWNER);
  const isOther = before !== "" && before !== owner && !(isGuest(before) && isGuest(owner));
  if (isOther) forget(TOKEN, SINCE);
  write(ofTab, OWNER, owner);
  write(ofTab, SEEN, String(Date.now()));
  return isOther;
}

/** Forgets this user in this tab, and has the others do it. */
export function forgetEverywhere(user: string) {
  forget();
  if (subjectOf(handedToken()) === user) write(ofBrowser, TOKEN, "");
  write(ofBrowser, markOf(user), String(Date.now()));
}

/** Whether the tab's user has signed out since they came: by a token of this tab, or as the gateway knows them. */
function isOut(): boolean {
  const user = userOfTab();
  const since = read(ofTab, TOKEN) === "" ? Number(read(ofTab, SEEN)) || Infinity : Number(read(ofTab, SINCE));
  return user !== "" && Number(read(ofBrowser, markOf(user))) > since;
}

/** Calls back when another tab signs this user out; a tab that slept meanwhile looks when it is shown. */
export function onSignOut(user: () => string, told: () => void) {
  let isTold = false;
  const tell = () => {
    if (isTold) return;
    isTold = true;
    forget();
    told();
  };
  addEventListener("storage", ({ key, newValue }) => {
    if (newValue !== null && (key === markOf(user()) || isOut())) tell();
  });
  const look = () => document.hidden || !isOut() || tell();
  for (const name of ["focus", "pageshow"]) addEventListener(name, look);
  document.addEventListener("visibilitychange", look);
}

// A tab that was closed, or asleep, while its user signed out is opened again.
if (!link && isOut()) forget();
