/**
 * WhyNot.tsx -- one quiet line that explains why there is no connection and what to do, once
 * known.
 */

import type { Cause } from "@holdfast/client";
import { gateway } from "../gateway";
import { useWatched } from "../watch";

const KEPT = "What you write is kept, and sent when it is back.";

const sentences: Partial<Record<Cause, () => string>> = {
  gateway: () => `The gateway does not answer. ${KEPT}`,
  route: () => `There is no way to the gateway: is the network there? ${KEPT}`,
  origin: () => `The gateway accepts no pages from ${location.origin}. The person who runs it can add that to “origins”.`,
  tls: () => "The gateway cannot be talked to securely: its certificate is not trusted, or it speaks no TLS.",
  proxy: () => "Something before the gateway passes no WebSockets on. The person who runs it can mend that.",
  path: () => "Something else answers where the gateway should be.",
};

/** Stands above what is still shown after the token has ended; `signIn` opens what signs in again. */
export function SignedOut({ signIn, children }: { signIn(): void; children: string }) {
  return (
    <p id="why-not" role="status">
      You are signed out. {children}{" "}
      <button type="button" className="quiet" onClick={signIn}>
        Sign in
      </button>
    </p>
  );
}

export function WhyNot() {
  const { state, trouble } = useWatched(gateway);
  const sentence = state === "live" || !trouble ? undefined : sentences[trouble.cause]?.();
  if (!sentence) return null;
  return (
    <p id="why-not" role="status">
      {sentence}
    </p>
  );
}
