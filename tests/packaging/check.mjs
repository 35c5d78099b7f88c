// check.mjs cyclonedx|kubernetes FILE -- validates a JSON file by the schemas of CycloneDX, or of Kubernetes' own API.
// A file for kubernetes has a list of objects.  What is wrong goes to stderr; exit code 1.
import {readFileSync} from 'node:fs';
import {Spec, Validation} from '@cyclonedx/cyclonedx-library';

async function cyclonedx(text) {
  const version = JSON.parse(text).specVersion;
  const wrong = await new Validation.JsonStrictValidator(Spec.Version[`v${version.replace('.', 'dot')}`]).validate(text);
  return wrong === null ? [] : [JSON.stringify(wrong)];
}

async function kubernetes(text) {
  const wrong = [];
  for (const object of JSON.parse(text)) {
    const group = object.apiVersion.includes('/') ? object.apiVersion : `/${object.apiVersion}`;
    const {[object.kind]: Model} = await import(`kubernetes-models${group.startsWith('/') ? group : `/${group}`}/${object.kind}`);
    try {
      new Model(object).validate();
    } catch (error) {
      wrong.push(`${object.kind}: ${error.message}`);
    }
  }
  return wrong;
}

const [what, file] = process.argv.slice(2);
const wrong = await {cyclonedx, kubernetes}[what](readFileSync(file, 'utf8'));
for (const line of wrong) {
  console.error(line);
}
process.exit(wrong.length ? 1 : 0);
