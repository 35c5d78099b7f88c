// envoy.mjs FILE -- checks a JSON file against Envoy's API (Bootstrap, v3), whose definitions are in gRPC's package for
// xDS: every name is a field of its message, of that type, and not deprecated.  What is wrong goes to stderr; exit code 1.
import {existsSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {dirname, join} from 'node:path';
import protobuf from 'protobufjs';

const require = createRequire(import.meta.url);
const folderOf = (name) => dirname(require.resolve(`${name}/package.json`));
const definitions = join(folderOf('@grpc/grpc-js-xds'), 'deps');
const folders = ['envoy-api', 'xds', 'protoc-gen-validate', 'googleapis'].map((name) => join(definitions, name));
folders.push(folderOf('protobufjs'));

const root = new protobuf.Root();
root.resolvePath = (origin, target) => folders.map((folder) => join(folder, target)).find(existsSync) ?? target;
await root.load(['config/bootstrap/v3/bootstrap', 'extensions/filters/http/router/v3/router',
  'extensions/filters/network/http_connection_manager/v3/http_connection_manager',
  'extensions/transport_sockets/tls/v3/tls', 'extensions/upstreams/http/v3/http_protocol_options',
].map((name) => `envoy/${name}.proto`), {keepCase: true});
root.resolveAll();

const wrong = [];
const isDuration = (value) => /^\d+(\.\d{1,9})?s$/.test(value);
const isNumber = (value) => typeof value === 'number';
const scalars = {string: (value) => typeof value === 'string', bool: (value) => typeof value === 'boolean'};
const wrapped = {StringValue: scalars.string, BoolValue: scalars.bool, Duration: isDuration, UInt32Value: Number.isInteger};

function message(type, value, at) {
  const known = type.fullName.startsWith('.google.protobuf.') && wrapped[type.name];
  if (known) {
    return known(value) || wrong.push(`${at}: no ${type.name}`);
  }
  if (type.name === 'Any') {
    const {'@type': url, ...rest} = value;
    return message(root.lookupType(url.split('/')[1]), rest, at);
  }
  if (typeof value !== 'object' || Array.isArray(value)) {
    return wrong.push(`${at}: no ${type.name}`);
  }
  for (const [name, member] of Object.entries(value)) {
    const field = type.fields[name];
    if (!field || field.options?.deprecated) {
      wrong.push(`${at}.${name}: ${field ? 'deprecated' : 'unknown'}`);
    } else if (field.repeated || field.map) {
      Object.entries(member).forEach(([key, one]) => single(field, one, `${at}.${name}.${key}`));
    } else {
      single(field, member, `${at}.${name}`);
    }
  }
}

function single(field, value, at) {
  const type = field.resolvedType;
  if (type instanceof protobuf.Type) {
    message(type, value, at);
  } else if (type ? !(value in type.values) : !(scalars[field.type] ?? isNumber)(value)) {
    wrong.push(`${at}: no ${field.type}`);
  }
}

message(root.lookupType('envoy.config.bootstrap.v3.Bootstrap'), JSON.parse(readFileSync(process.argv[2], 'utf8')), '');
for (const line of wrong) {
  console.error(line);
}
process.exit(wrong.length ? 1 : 0);
