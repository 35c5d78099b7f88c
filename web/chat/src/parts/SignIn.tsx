/** SignIn.tsx -- shown instead of a conversation while nobody is signed in. */

import { useState, type FormEvent } from "react";
import { gateway } from "../gateway";
import { keepToken, keptToken } from "../identity";
import { usePage } from "../page";
import { signOut } from "../signout";
import { Mark } from "./Mark";

export function SignIn() {
  const [token, setToken] = useState("");
  const { signIn } = usePage();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    keepToken(token.trim());
  };
  return (
    <section id="sign-in" aria-label="Sign in">
      <Mark size={52} />
      <h2>{keptToken() ? "This token is not good" : "Sign in is needed"}</h2>
      <p>
        {keptToken()
          ? "It has expired, or was not made for this gateway. Paste a fresh one."
          : "This gateway answers only people whom it knows."}
      </p>
      {signIn !== "" ? (
        <a className="sign-in" href={signIn}>
          Sign in
        </a>
      ) : (
        <p className="hint">Sign in where you got this address, then try again; or paste a token.</p>
      )}
      <form className="row" onSubmit={submit}>
        <input
          type="password"
          aria-label="Token"
          placeholder="Token"
          autoComplete="off"
          spellCheck={false}
          value={token}
          onChange={(event) => setToken(event.target.value)}
        />
        <button type="submit" disabled={token.trim() === ""}>
          Use it
        </button>
      </form>
      {signIn === "" && (
        <p className="hint">
          For a first try, <code>holdfast token --sub NAME</code> makes one.
        </p>
      )}
      <div className="row">
        <button type="button" className="quiet" onClick={() => gateway.retry()}>
          I have signed in: try again
        </button>
        {keptToken() && (
          <button type="button" className="quiet" onClick={() => void signOut()}>
            Forget the token
          </button>
        )}
      </div>
    </section>
  );
}
