/**
 * trust.ts -- the page's policy for Trusted Types: text never becomes HTML or a script here, and
 * the only script that is started by its address is the client's worker.
 */

interface Factory {
  createPolicy(name: string, rules: { createScriptURL(url: string): string }): unknown;
}

const { trustedTypes } = window as { trustedTypes?: Factory };

trustedTypes?.createPolicy("default", {
  createScriptURL(url) {
    if (new URL(url, location.href).origin !== location.origin) throw new TypeError(`not ours: ${url}`);
    return url;
  },
});
