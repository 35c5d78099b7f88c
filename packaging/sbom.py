#!/usr/bin/env python3
"""sbom.py PROGRAM VERSION ARCH MULTIARCH PACKAGE-LOCK -- what a built gateway consists of, as CycloneDX 1.5.

The libraries are those that the program names, and those that they name, with the versions of the Debian packages that
are installed here; the npm packages are those that the chat page inside the program may be made of.  The same machine
gives the same bytes.
"""
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import uuid

OS = dict(re.findall(r'^(\w+)="?(.*?)"?$', pathlib.Path("/etc/os-release").read_text(encoding="utf-8"), re.M))
DISTRO = f"{OS['ID']}-{OS['VERSION_ID']}"
BY_NAME = "libwebsockets-evlib_uv.so"  # libwebsockets loads it itself, by this name


def run(*words):
    return subprocess.run(words, capture_output=True, encoding="utf-8", check=True).stdout


def needed(path):
    return re.findall(r"\(NEEDED\)\s+Shared library: \[(.*?)\]", run("readelf", "-dW", str(path)))


def closure(program, multiarch):
    """Library → (its path, those that it names); the program's own under the name ""."""
    folders = [pathlib.Path("/usr/lib", multiarch), pathlib.Path("/lib", multiarch)]
    found, todo = {"": (program, needed(program))}, [*needed(program), BY_NAME]
    while todo:
        name = todo.pop()
        if name in found or name.startswith("ld-linux"):
            continue
        path = next((folder / name for folder in folders if (folder / name).exists()), None)
        if path is None:
            sys.exit(f"sbom: {name} is not in /usr/lib/{multiarch}")
        path = path.resolve()
        found[name] = (path, needed(path))
        todo += found[name][1]
    found[""][1].append(BY_NAME)
    return found


def owners(paths, arch):
    """Path → (package, version, source package) that installed it."""
    asked = {name: path for path in paths for name in (str(path), str(path).replace("/usr/lib/", "/lib/", 1))}
    told = subprocess.run(["dpkg-query", "-S", *asked], capture_output=True, encoding="utf-8", check=False).stdout
    packages = {asked[name]: owner.split(":")[0] for owner, name in re.findall(r"^(\S+): (.*)$", told, re.M)}
    for path in paths:
        if path not in packages:
            sys.exit(f"sbom: no package has {path}")
    told = run("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${source:Package}\n",
               *sorted({f"{package}:{arch}" for package in packages.values()}))
    rows = {line.split("\t")[0]: line.split("\t") for line in told.splitlines()}
    return {path: rows[package] for path, package in packages.items()}


def libraries(program, arch, multiarch):
    """Components, one a package, and what depends on what, by bom-ref; the program itself has the ref ""."""
    found = closure(program, multiarch)
    refs, components = {"": ""}, {}
    installed = owners([path for name, (path, _) in found.items() if name], arch)
    for name in sorted(found):
        if not name:
            continue
        path = found[name][0]
        package, version, source = installed[path]
        purl = f"pkg:deb/debian/{package}@{version.replace('+', '%2B').replace(':', '%3A')}?arch={arch}&distro={DISTRO}"
        refs[name] = purl
        component = components.setdefault(purl, {
            "type": "library", "bom-ref": purl, "name": package, "version": version, "purl": purl,
            "properties": [{"name": "debian:source", "value": source}]})
        component["properties"].append(
            {"name": f"sha256:{name}", "value": hashlib.sha256(path.read_bytes()).hexdigest()})
    edges = {ref: set() for ref in refs.values()}
    for name, (_, names) in found.items():
        edges[refs[name]] |= {refs[other] for other in names if other in refs} - {refs[name]}
    return components, edges


def page_packages(lock):
    """The npm packages of the chat page, without those that only build or check it."""
    components = {}
    for place, package in json.loads(pathlib.Path(lock).read_text(encoding="utf-8"))["packages"].items():
        if not place or package.get("dev") or "/@types/" in place:
            continue
        name = place.rpartition("node_modules/")[2]
        purl = f"pkg:npm/{name.replace('@', '%40')}@{package['version']}"
        components[purl] = {"type": "library", "bom-ref": purl, "name": name, "version": package["version"], "purl": purl}
        if "license" in package:
            components[purl]["licenses"] = [{"expression": package["license"]}]
    return components


def main():
    program, version, arch, multiarch, lock = sys.argv[1:]
    ours = f"pkg:generic/holdfast@{version}?arch={arch}"
    components, edges = libraries(pathlib.Path(program), arch, multiarch)
    page = page_packages(lock)
    edges[""] |= page.keys()
    edges.update({purl: set() for purl in page})
    digest = hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest()
    when = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    document = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", when),
            "component": {"type": "application", "bom-ref": ours, "name": "holdfast", "version": version, "purl": ours,
                          "licenses": [{"license": {"id": "MIT"}}],
                          "hashes": [{"alg": "SHA-256", "content": digest}]}},
        "components": [{**components, **page}[purl] for purl in sorted({**components, **page})],
        "dependencies": [{"ref": ref or ours, "dependsOn": sorted(edges[ref])} for ref in sorted(edges)],
    }
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")


main()
