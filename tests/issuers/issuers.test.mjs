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
import WebSocket from "../clients/node_modules/ws/wrapper.mjs";

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

// -------------------------------------------------------------- keys by their URL (auth.jwks_url)

/** A server of a set of keys, which a test changes; `asked` counts what was asked of it. */
async function keyServer(body) {
  const held = { body, status: 200, asked: 0 };
  const server = createServer((_, answer) => {
    held.asked++;
    answer.writeHead(held.status, { "Content-Type": "application/json" });
    answer.end(typeof held.body === "string" ? held.body : JSON.stringify(held.body));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  held.url = `http://127.0.0.1:${server.address().port}/keys`;
  held.close = () => (server.closeAllConnections(), server.close());
  return held;
}

async function gatewayAt(url, more = {}) {
  const gateway = new Gateway({ auth: { jwks_url: url, issuer: "https://id.example", audience: AUDIENCE, ...more } });
  gateways.push(gateway);
  await gateway.start();
  return gateway;
}

const claimsOf = (sub = "alice") => ({ iss: "https://id.example", aud: AUDIENCE, sub, exp: now() + HOUR_S });

/** Asks until the gateway has the keys: 503 says that they are under way. */
async function settled(gateway, token) {
  for (;;) {
    const status = await ask(gateway, token);
    if (status !== 503) return status;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A connection, and its next line of that type. */
async function connect(gateway) {
  const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/v1/ws`, "holdfast.v1");
  const lines = [];
  let wake = () => {};
  socket.onmessage = ({ data }) => (lines.push(...data.split("\n").filter(Boolean).map((line) => JSON.parse(line))), wake());
  const closed = new Promise((resolve) => (socket.onclose = resolve));
  await new Promise((resolve, reject) => ((socket.onopen = resolve), (socket.onerror = reject)));
  const next = async (type) => {
    for (;;) {
      const at = lines.findIndex((line) => line.type === type);
      if (at >= 0) return lines.splice(at, 1)[0];
      await new Promise((resolve) => (wake = resolve));
    }
  };
  return { next, closed, say: (line) => socket.send(JSON.stringify(line)), close: () => socket.close() };
}

test("a provider's jwks_uri is all that the gateway needs, and a withdrawn set leaves the last one", async () => {
  const signer = await issuerOf("RS256", "provider-1");
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, { jwks: { keys: [signer.privateJwk] }, features: { devInteractions: { enabled: false } } });
  server.on("request", provider.callback());
  const { jwks_uri: url } = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
  const gateway = await gatewayAt(url, { issuer });
  const token = await signer.sign({ ...claimsOf(), iss: issuer });
  try {
    assert.equal(await settled(gateway, token), 200);
  } finally {
    server.closeAllConnections();
    server.close();
  }
  await gateway.stop();
  await gateway.start(); // nobody answers now, and the keys of before are known
  assert.equal(await ask(gateway, token), 200);
  assert.equal(await settled(gateway, await (await issuerOf("RS256", "provider-1")).sign({ ...claimsOf(), iss: issuer })), 401);
});

test("keys are rotated under open connections, and strangers cannot make the gateway ask again and again", async () => {
  const first = await issuerOf("ES256", "one");
  const second = await issuerOf("EdDSA", "two");
  const keys = await keyServer(first.jwks);
  const gateway = await gatewayAt(keys.url);
  try {
    const token = await first.sign(claimsOf());
    assert.equal(await settled(gateway, token), 200);
    const link = await connect(gateway);
    link.say({ type: "hello", id: "1", token });
    assert.equal((await link.next("welcome")).owner, "alice");

    keys.body = second.jwks;
    const fresh = await second.sign(claimsOf());
    assert.equal(await settled(gateway, fresh), 200);
    assert.equal(await settled(gateway, token), 401); // its key was withdrawn
    link.say({ type: "ping", id: "2" }); // its connection is as it was, and takes the next token
    await link.next("pong");
    link.say({ type: "hello", id: "3", token: fresh });
    assert.equal((await link.next("welcome")).owner, "alice");
    link.close();

    const asked = keys.asked;
    const stranger = await (await issuerOf("ES256", "nobody")).sign(claimsOf());
    for (let i = 0; i < 50; i++) assert.equal(await settled(gateway, stranger), 401);
    assert.ok(keys.asked - asked < 10, `${keys.asked - asked} fetches for 50 tokens`);
    assert.equal(await ask(gateway, fresh), 200);
  } finally {
    keys.close();
  }
});

test("until the first keys have come a good token is told to try again, on each way in", async () => {
  const signer = await issuerOf("RS256", "one");
  const keys = await keyServer("not yet");
  keys.status = 500;
  const gateway = await gatewayAt(keys.url);
  try {
    const token = await signer.sign(claimsOf());
    assert.equal(await ask(gateway, token), 503);
    const link = await connect(gateway);
    link.say({ type: "hello", id: "1", token });
    const error = await link.next("error");
    assert.equal(error.code, "overloaded");
    assert.ok(error.retry_after_ms > 0);
    assert.equal((await link.closed).code, 1013);
    // Another issuer's token, and one that no public key signs, are nothing to wait for.
    assert.equal(await ask(gateway, await signer.sign({ ...claimsOf(), iss: "https://other.example" })), 401);
    const secret = new TextEncoder().encode("s".repeat(32));
    assert.equal(await ask(gateway, await new jose.SignJWT(claimsOf()).setProtectedHeader({ alg: "HS256", kid: "one" }).sign(secret)), 401);
    keys.status = 200;
    keys.body = signer.jwks;
    assert.equal(await settled(gateway, token), 200);
  } finally {
    keys.close();
  }
});

test("of a set only public keys that verify are taken", async () => {
  const good = await issuerOf("ES256", "good");
  const others = [];
  for (const [kid, change] of [
    ["private", (signer) => signer.privateJwk],
    ["encrypts", (signer) => ({ ...signer.jwks.keys[0], use: "enc" })],
    ["wraps", ({ jwks: { keys: [{ use: _, ...key }] } }) => ({ ...key, key_ops: ["wrapKey"] })],
    ["other", (signer) => ({ ...signer.jwks.keys[0], alg: "ES384" })],
  ]) {
    const signer = await issuerOf("ES256", kid);
    others.push({ signer, jwk: change(signer) });
  }
  const secret = { kty: "oct", kid: "secret", alg: "HS256", k: Buffer.from("s".repeat(32)).toString("base64url") };
  const keys = await keyServer({ keys: [null, 7, {}, { kty: "RSA" }, secret, ...others.map(({ jwk }) => jwk), good.jwks.keys[0]] });
  const gateway = await gatewayAt(keys.url);
  try {
    assert.equal(await settled(gateway, await good.sign(claimsOf())), 200);
    for (const { signer } of others) assert.equal(await settled(gateway, await signer.sign(claimsOf())), 401);
    const bytes = new TextEncoder().encode("s".repeat(32));
    assert.equal(await ask(gateway, await new jose.SignJWT(claimsOf()).setProtectedHeader({ alg: "HS256", kid: "secret" }).sign(bytes)), 401);
  } finally {
    keys.close();
  }
});
