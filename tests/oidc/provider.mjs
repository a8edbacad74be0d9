// A real OpenID provider for the tests: oidc-provider, on a free port of this machine.
// Prints one line of JSON once it listens. "rotate" on its standard input gives it a new signing key;
// the old one stays published, as providers do it. It ends with its standard input.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';

const require = createRequire(`${process.cwd()}/`);
const { default: Provider, errors } = await import(require.resolve('oidc-provider'));

const [audience, lifetime] = process.argv.slice(2);
const people = {
  alice: { email: 'alice@acme.test', groups: ['acme-devs'] },
  bob: { email: 'bob@both.test', groups: ['acme-devs', 'globex-devs'] },
  carol: { email: 'carol@nowhere.test', groups: [] },
};
const keys = [];
const newKey = () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  keys.unshift({ ...privateKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig', kid: randomUUID() });
};
const resource = (format) => ({
  scope: 'openid', audience, accessTokenFormat: format, accessTokenTTL: Number(lifetime), jwt: { sign: { alg: 'ES256' } },
});
const configuration = () => ({
  jwks: { keys },
  clients: [
    {
      client_id: 'windlass-cli', token_endpoint_auth_method: 'none', application_type: 'native',
      redirect_uris: [], response_types: [], id_token_signed_response_alg: 'ES256',
      grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'],
    },
    {
      client_id: 'machine', id_token_signed_response_alg: 'ES256', token_endpoint_auth_method: 'client_secret_post', client_secret: 'a secret that only this machine ever sees',
      redirect_uris: [], response_types: [], grant_types: ['client_credentials'],
    },
  ],
  scopes: ['openid', 'offline_access', 'email'],
  claims: { openid: ['sub'], email: ['email'] },
  features: {
    devInteractions: { enabled: true }, deviceFlow: { enabled: true }, clientCredentials: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true, defaultResource: () => undefined,
      getResourceServerInfo: (ctx, wanted) => {
        if (wanted === audience) return resource('jwt');
        if (wanted === 'https://other.example.com') return { ...resource('jwt'), audience: wanted };
        throw new errors.InvalidTarget();
      },
    },
  },
  extraTokenClaims: (ctx, token) => people[token.accountId],
  rotateRefreshToken: true,
  issueRefreshToken: (ctx, client, code) => code.scopes.has('offline_access'),
  findAccount: (ctx, id) => people[id] && { accountId: id, claims: () => ({ sub: id, ...people[id] }) },
  ttl: { AccessToken: Number(lifetime), IdToken: 300, DeviceCode: 120, Grant: 3600, Session: 3600, Interaction: 600, RefreshToken: 3600 },
});

let answer;
const server = createServer((request, response) => answer(request, response));
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const begin = () => {
    newKey();
    answer = new Provider(issuer, configuration()).callback();
  };
  begin();
  console.log(JSON.stringify({ issuer }));
  createInterface({ input: process.stdin }).on('line', (line) => {
    if (line === 'rotate') begin();
    console.log(JSON.stringify({ done: line, kid: keys[0].kid }));
  }).on('close', () => process.exit(0));
});
