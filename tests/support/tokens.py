"""Tokens made by hand: valid ones, and every kind of invalid one."""

import base64
import hashlib
import hmac
import json
import subprocess
import time

SECRET = b"a secret of more than thirty-two bytes, for the tests"


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def part(value):
    return b64(json.dumps(value, separators=(",", ":")).encode())


def hs256(claims, secret=SECRET, **header):
    signed = part({"alg": "HS256", "typ": "JWT", **header}) + "." + part(claims)
    return signed + "." + b64(hmac.new(secret, signed.encode(), hashlib.sha256).digest())


def token(sub, seconds=3600, secret=SECRET, kid="k1", **claims):
    return hs256({"sub": sub, "exp": int(time.time()) + seconds, **claims}, secret, kid=kid)


def unsigned(claims, alg="none"):
    return part({"alg": alg, "typ": "JWT"}) + "." + part(claims) + "."


def claims_of(text):
    return json.loads(unb64(text.split(".")[1]))


def config(folder, **more):
    """The auth part of a configuration with the HS256 key k1."""
    path = folder / "secret"
    path.write_bytes(SECRET)
    return {"keys": [{"kid": "k1", "alg": "HS256", "secret_file": str(path)}], **more}


class Rsa:
    """An RSA key pair in files."""

    def __init__(self, folder, name="rsa"):
        self.private = folder / f"{name}.pem"
        self.public = folder / f"{name}.pub"
        openssl("genrsa", "-out", str(self.private), "2048")
        openssl("rsa", "-in", str(self.private), "-pubout", "-out", str(self.public))

    def rs256(self, claims, **header):
        signed = part({"alg": "RS256", "typ": "JWT", **header}) + "." + part(claims)
        made = subprocess.run(["openssl", "dgst", "-sha256", "-sign", str(self.private)],
                              input=signed.encode(), capture_output=True, check=True)
        return signed + "." + b64(made.stdout)


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], capture_output=True, check=True)
