/**
 * signout.ts -- leaves this browser as it was before somebody signed in: without the token, what was written and not
 * asked, and files at the field.  Conversations are the gateway's, and stay there.
 */

import { IndexedStore } from "@holdfast/client";
import { forget as forgetFiles } from "./fieldfiles";
import { gateway, home, place, user } from "./gateway";
import { changesHands, forgetEverywhere, onSignOut, userOfTab } from "./identity";
import { signOutAddress } from "./page";
import { link } from "./rights";

/** The user who is signed in: by a token of this page, or by a cookie of the operator's. */
const who = () => user || (gateway.owner ?? userOfTab());

interface Asked {
  request: { request_key: string };
  owner: string | null;
}

/** Questions of this user that were not sent, also those of tabs that are closed. */
async function forgetOutbox() {
  const { owner } = gateway;
  const store = new IndexedStore();
  const prefix = `${place} asked `;
  for (const { request, owner: its } of await store.list<Asked>(prefix)) {
    if (user !== "" || its === null || its === owner) await store.put(prefix + request.request_key, undefined);
  }
}

/** To where one signs out of a cookie, or to the page as it is for somebody new. */
async function leave() {
  const address = await signOutAddress();
  if (address !== "") return location.replace(address);
  history.replaceState(null, "", home);
  location.reload();
}

export async function signOut() {
  const its = who();
  gateway.close(); // nothing more is sent
  await Promise.all([forgetOutbox(), forgetFiles(its)]).catch(() => {}); // a browser that stores nothing has nothing
  forgetEverywhere(its);
  await leave();
}

if (!link) {
  let known: string | null = null;
  gateway.subscribe(() => {
    const { owner } = gateway;
    if (!owner || owner === known) return;
    known = owner;
    if (changesHands(owner)) location.reload();
  });
  onSignOut(who, () => {
    gateway.close();
    void leave();
  });
}
