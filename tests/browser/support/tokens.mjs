// tokens.mjs -- tokens that a gateway with `auth` takes: configured by `authWith`.

import { createHmac } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

const SECRET = "a secret of more than thirty-two bytes, for the tests";

/** For a gateway that knows no token of before. */
export const OTHER_SECRET = "another secret of more than thirty-two bytes, for the tests";
const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Lasts an hour. */
export function tokenOf(sub, secret = SECRET) {
  const claims = { sub, exp: Math.floor(Date.now() / 1000) + 3_600 };
  const signed = `${part({ alg: "HS256", typ: "JWT", kid: "k1" })}.${part(claims)}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

/** The configuration of a gateway that takes them, whose folder this is. */
export async function authWith(folder, secret = SECRET) {
  const secret_file = join(folder, "secret");
  await writeFile(secret_file, secret, { mode: 0o600 });
  return { keys: [{ kid: "k1", alg: "HS256", secret_file }] };
}
