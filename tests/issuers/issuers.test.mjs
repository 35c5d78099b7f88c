// Tokens of issuers that nobody here wrote: a real OpenID provider, and jose with the claims that Keycloak, Auth0 and
// Cognito document.  The gateway has their public keys as a JWK set in a file (docs/operations.md, section 1).

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as jose from "jose";
import { Provider } from "oidc-provider";
import { Gateway } from "../browser/support/gateway.mjs";

const AUDIENCE = "holdfast";
const API = "https://chat.example/api";
const HOUR_S = 3600;

let folder;
const gateways = [];

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "holdfast-issuers-"));
});

after(async () => {
  for (const gateway of gateways) await gateway.remove();
  await rm(folder, { recursive: true, force: true });
});

/** A gateway that takes tokens of that issuer, whose JWK set it has in a file. */
async function gatewayFor(issuer, audience, jwks) {
  const file = join(folder, `jwks-${gateways.length}.json`);
  await writeFile(file, JSON.stringify(jwks));
  const keys = jwks.keys.map(({ kid, alg }) => ({ kid, alg, public_key_file: file }));
  const gateway = new Gateway({ auth: { keys, issuer, audience } });
  gateways.push(gateway);
  await gateway.start();
  return gateway;
}

async function ask(gateway, token) {
  const answer = await fetch(`http://127.0.0.1:${gateway.port}/v1/conversations`, {
    headers: { Authorization: `Bearer ${token}` },
  });
  await answer.text();
  return answer.status;
}

/** @returns {Promise<{jwks: object, sign: (claims: object) => Promise<string>}>} */
async function issuerOf(alg, kid) {
  const { publicKey, privateKey } = await jose.generateKeyPair(alg, { extractable: true });
  const jwk = { ...(await jose.exportJWK(publicKey)), kid, alg, use: "sig" };
  return {
    jwks: { keys: [jwk] },
    privateJwk: { ...(await jose.exportJWK(privateKey)), kid, alg, use: "sig" },
    sign: (claims) => new jose.SignJWT(claims).setProtectedHeader({ alg, kid, typ: "JWT" }).sign(privateKey),
  };
}

const now = () => Math.floor(Date.now() / 1000);

test("an OpenID provider's access token for the gateway's audience is let in, another's is not", async () => {
  const signer = await issuerOf("RS256", "provider-1");
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    jwks: { keys: [signer.privateJwk] },
    clients: [
      { client_id: "app", client_secret: "s".repeat(32), grant_types: ["client_credentials"], redirect_uris: [], response_types: [] },
    ],
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, resource) => ({
          scope: "",
          audience: resource === API ? AUDIENCE : "somebody-else",
          accessTokenFormat: "jwt",
          accessTokenTTL: HOUR_S,
          jwt: { sign: { alg: "RS256" } },
        }),
      },
    },
  });
  server.on("request", provider.callback());
  try {
    const metadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
    const published = await (await fetch(metadata.jwks_uri)).json();
    assert.equal(published.keys[0].d, undefined);
    const gateway = await gatewayFor(metadata.issuer, AUDIENCE, published);
    const tokenFor = async (resource) => {
      const answer = await fetch(metadata.token_endpoint, {
        method: "POST",
        headers: { Authorization: `Basic ${btoa(`app:${"s".repeat(32)}`)}` },
        body: new URLSearchParams({ grant_type: "client_credentials", resource }),
      });
      const body = await answer.json();
      assert.equal(answer.status, 200, JSON.stringify(body));
      return body.access_token;
    };
    assert.equal(await ask(gateway, await tokenFor(API)), 200);
    assert.equal(await ask(gateway, await tokenFor("https://other.example/")), 401);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

// The members that each documents for its tokens; values as its documentation shows them.
const FORMS = [
  {
    name: "Keycloak, with an audience mapper",
    alg: "RS256",
    issuer: "https://id.example/realms/chat",
    audience: AUDIENCE,
    claims: { sub: "2f0b1c9e-6b1c-4a57-9d53-4fd4c7a0f5a1", aud: [AUDIENCE, "account"], typ: "Bearer", azp: "web",
      realm_access: { roles: ["offline_access"] }, scope: "openid profile", preferred_username: "alice" },
    wrong: { aud: "account" },
  },
  {
    name: "Keycloak with an Ed25519 key",
    alg: "EdDSA",
    issuer: "https://id.example/realms/chat",
    audience: AUDIENCE,
    claims: { sub: "2f0b1c9e-6b1c-4a57-9d53-4fd4c7a0f5a1", aud: AUDIENCE },
    wrong: { iss: "https://id.example/realms/other" },
  },
  {
    name: "Auth0: the issuer ends with a slash",
    alg: "RS256",
    issuer: "https://tenant.eu.auth0.example/",
    audience: API,
    claims: { sub: "auth0|5f7c8ec7c33c6c004bbafe82", aud: [API, "https://tenant.eu.auth0.example/userinfo"],
      azp: "my_client_id", scope: "openid profile", permissions: [] },
    wrong: { iss: "https://tenant.eu.auth0.example" },
  },
  {
    name: "Cognito: the id token, whose audience is the app's client",
    alg: "RS256",
    issuer: "https://cognito-idp.eu-west-1.amazonaws.example/eu-west-1_ABC",
    audience: "xxxxxxxxxxxxexample",
    claims: { sub: "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", aud: "xxxxxxxxxxxxexample", token_use: "id",
      "cognito:username": "alice", auth_time: 1676312777 },
    wrong: { aud: undefined, client_id: "xxxxxxxxxxxxexample", token_use: "access" },
  },
  {
    name: "an issuer with P-256",
    alg: "ES256",
    issuer: "https://id.example",
    audience: AUDIENCE,
    claims: { sub: "alice", aud: [AUDIENCE] },
    wrong: { exp: 1 },
  },
];

for (const form of FORMS) {
  test(`${form.name}: is let in, and not with ${Object.keys(form.wrong)[0]} changed`, async () => {
    const { jwks, sign } = await issuerOf(form.alg, "key-1");
    const gateway = await gatewayFor(form.issuer, form.audience, jwks);
    const claims = { iss: form.issuer, iat: now(), exp: now() + HOUR_S, ...form.claims };
    assert.equal(await ask(gateway, await sign(claims)), 200);
    assert.equal(await ask(gateway, await sign({ ...claims, ...form.wrong })), 401);
    const stranger = await issuerOf(form.alg, "key-1");
    assert.equal(await ask(gateway, await stranger.sign(claims)), 401);
  });
}
