/** SignOut.tsx -- leaves a browser that others use too; it is there where somebody has signed in. */

import { useRef } from "react";
import { gateway, user } from "../gateway";
import { usePage } from "../page";
import { signOut } from "../signout";
import { useWatched } from "../watch";
import { plural } from "../words";
import { Icon } from "./Icon";

/** By a cookie, which only the operator's own address can end; a guest has signed in nowhere. */
const hasCookie = (owner: string | null, address: string) => address !== "" && owner !== null && !owner.startsWith("guest-");

export function SignOut() {
  const dialog = useRef<HTMLDialogElement>(null);
  const { owner, outbox } = useWatched(gateway);
  const { signOut: address } = usePage();
  if (user === "" && !hasCookie(owner, address)) return null;
  return (
    <>
      <button
        id="sign-out"
        type="button"
        className="quiet"
        title={owner ? `Signed in as ${owner}` : undefined}
        onClick={() => dialog.current!.showModal()}
      >
        <Icon name="leave" /> Sign out
      </button>
      <dialog ref={dialog} id="sign-out-dialog" aria-label="Sign out">
        <h2>Sign out?</h2>
        <p>
          This browser forgets {owner ?? "you"}, in all its tabs, with what was written and not sent
          {outbox.length > 0 && <strong>: {plural(outbox.length, "message")} among it</strong>}. Conversations stay with the gateway, and
          what runs there runs on.
        </p>
        <div className="row end">
          <button type="button" className="quiet" onClick={() => dialog.current!.close()}>
            Back
          </button>
          <button type="button" onClick={() => void signOut()}>
            Sign out
          </button>
        </div>
      </dialog>
    </>
  );
}
