import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { keyConfig } from '../src/access/keys.ts'
import { chatOptions } from '../src/engines/chat-options.ts'
import { llamaEmbeddedOptions } from '../src/engines/llama-embedded-options.ts'
import { llamaServerOptions } from '../src/engines/llama-server-options.ts'
import { ollamaOptions } from '../src/engines/ollama-options.ts'
import { sglangOptions } from '../src/engines/sglang.ts'
import { simulatedOptions } from '../src/engines/simulated.ts'
import { vllmOptions } from '../src/engines/vllm.ts'
import { fleetOptions } from '../src/config-schema.ts'
import { ConfigError, configSchema, loadConfig, settings, type Flags } from '../src/config.ts'

function folder(yaml?: string): string {
  const cwd = mkdtempSync(join(tmpdir(), 'continuo-config-'))
  if (yaml !== undefined) writeFileSync(join(cwd, 'continuo.yaml'), yaml)
  return cwd
}
function load(yaml?: string, env: Record<string, string> = {}, flags: Flags = {}) {
  return loadConfig({ cwd: folder(yaml), env, flags })
}
function failure(yaml?: string, env: Record<string, string> = {}, flags: Flags = {}): string {
  try {
    load(yaml, env, flags)
  } catch (e) {
    expect(e).toBeInstanceOf(ConfigError)
    return e instanceof Error ? e.message : ''
  }
  throw new Error('the configuration was accepted')
}

describe('where values come from', () => {
  it('is all defaults where nothing is said', () => {
    const cwd = folder()
    const { config, origin, file, warnings } = loadConfig({ cwd, env: {}, flags: {} })
    expect(config).toEqual({
      host: '127.0.0.1',
      port: 8787,
      caches: true,
      data: join(cwd, 'data'),
      tls: {},
      keys: [],
      models: { '*': { engine: 'simulated' }, simulated: { engine: 'simulated' } },
      engines: { simulated: { type: 'simulated' } },
      store: { kind: 'sqlite', maxAgeDays: 30, maxBytes: 34_359_738_368, synchronous: 'normal', maxRecords: 10_000 },
      limits: {
        websocket: {
          enabled: true,
          ramp: 1,
          compression: 'off',
          closeAfterFailure: 'auto',
          maxMessageBytes: 67_108_864,
          maxHeldBytes: 536_870_912,
          maxSockets: 10_000,
          inFlight: 16,
          namedLanes: 32,
          queued: 64,
          continuable: 64,
          continuableBytes: 128 * 1024 * 1024,
          pendingSteers: 16,
          pingMs: 25_000,
          pongMs: 30_000,
          maxAgeMs: 0,
        },
        http: { maxBodyBytes: 67_108_864, origins: [], headersMs: 10_000 },
        keepaliveMs: 20_000,
        detachGraceMs: 0,
        slowReaderBytes: 1_048_576,
        slowReaderMs: 10_000,
        turnMs: 1_800_000,
        conversationBytes: 256 * 1024 * 1024,
        outputBytes: 16_777_216,
        drainMs: 600_000,
        events: { keepMs: 600_000, keepBytes: 67_108_864, perResponse: 8_388_608 },
        prefixes: { keepBytes: 256 * 1024 * 1024, keepMs: 3_600_000 },
        unsettled: 10_000,
      },
      tokens: { shadow: 0.01 },
      rollouts: { enabled: false, waitMs: 600_000, rounds: 1000 },
      log: { level: 'info', pretty: 'auto' },
    })
    expect([...origin.values()].every((o) => o === 'default')).toBe(true)
    expect([...origin.keys()]).toEqual(settings.map((s) => s.name))
    expect(file).toBeUndefined()
    expect(warnings).toEqual([])
  })

  it('takes flags before the environment, the environment before the file, the file before the default', () => {
    const yaml = 'port: 1001\nhost: localhost\nlimits:\n  drainMs: 1 s\n  turnMs: 5 min\n'
    const env = { PORT: '1002', CONTINUO_LIMITS_DRAIN_MS: '2 s' }
    const { config, origin, where } = load(yaml, env, { set: { port: '1003' }, shown: { port: '--port' } })
    expect([config.port, config.limits.drainMs, config.limits.turnMs, config.host]).toEqual([
      1003,
      2000,
      300_000,
      'localhost',
    ])
    expect(['port', 'limits.drainMs', 'limits.turnMs', 'host', 'log.level'].map((n) => origin.get(n))).toEqual([
      'flag',
      'env',
      'file',
      'file',
      'default',
    ])
    expect(['port', 'limits.drainMs', 'limits.turnMs', 'host', 'log.level'].map((n) => where.get(n))).toEqual([
      '--port',
      'CONTINUO_LIMITS_DRAIN_MS',
      'continuo.yaml:5',
      'continuo.yaml:2',
      undefined,
    ])
  })

  it('holds for every setting and every set of sources', () => {
    const bySource = fc.record({
      name: fc.constantFrom('port', 'limits.unsettled', 'limits.websocket.queued', 'store.maxAgeDays'),
      flag: fc.option(fc.integer({ min: 1, max: 100 })),
      env: fc.option(fc.integer({ min: 101, max: 200 })),
      file: fc.option(fc.integer({ min: 201, max: 300 })),
    })
    fc.assert(
      fc.property(bySource, ({ name, flag, env, file }) => {
        const setting = settings.find((s) => s.name === name)
        if (!setting) throw new Error(name)
        const yaml =
          file === null
            ? ''
            : JSON.stringify(setting.path.reduceRight<unknown>((value, key) => ({ [key]: value }), file))
        const { config, origin } = load(yaml, env === null ? {} : { [setting.env]: String(env) }, {
          set: flag === null ? {} : { [name]: flag },
        })
        const value = setting.path.reduce<unknown>((at, key) => (at as Record<string, unknown>)[key], config)
        expect(value).toBe(flag ?? env ?? file ?? setting.byDefault)
        expect(origin.get(name)).toBe(
          flag !== null ? 'flag' : env !== null ? 'env' : file !== null ? 'file' : 'default',
        )
      }),
      { numRuns: 60 },
    )
  })

  it('reads CONTINUO_HOST, CONTINUO_DATA and CONTINUO_LOG_LEVEL, and prefers CONTINUO_PORT to PORT', () => {
    const { config } = load(undefined, {
      CONTINUO_HOST: '::1',
      CONTINUO_DATA: '/srv/123',
      CONTINUO_LOG_LEVEL: 'debug',
      CONTINUO_PORT: '1',
      PORT: '2',
    })
    expect([config.host, config.data, config.log.level, config.port]).toEqual(['::1', '/srv/123', 'debug', 1])
  })

  it('reads maps, lists and truth values from the environment', () => {
    const { config } = load(undefined, {
      CONTINUO_MODELS: '{"*": {engine: main, context: 8192}}',
      CONTINUO_ENGINES: '{main: {type: chat, url: "http://127.0.0.1:8000/v1"}}',
      CONTINUO_LIMITS_HTTP_ORIGINS: 'https://a.example, https://b.example:8443',
      CONTINUO_LIMITS_WEBSOCKET_ENABLED: 'false',
      CONTINUO_LOG_PRETTY: 'true',
    })
    expect(config.models).toEqual({ '*': { engine: 'main', context: 8192 } })
    expect(config.engines['main']).toEqual({ type: 'chat', url: 'http://127.0.0.1:8000/v1' })
    expect(config.limits.http.origins).toEqual(['https://a.example', 'https://b.example:8443'])
    expect(config.limits.websocket.enabled).toBe(false)
    expect(config.log.pretty).toBe(true)
  })

  it('leaves alone what a cluster puts into the environment for a service named continuo', () => {
    const { config, warnings } = load(undefined, {
      CONTINUO_PORT: 'tcp://10.0.0.1:80',
      CONTINUO_SERVICE_HOST: '10.0.0.1',
      CONTINUO_PORT_80_TCP_ADDR: '10.0.0.1',
    })
    expect(config.port).toBe(8787)
    expect(warnings).toEqual([])
  })

  it('resolves a data folder of the file from the place of the file, others from the working folder', () => {
    const elsewhere = folder('data: state\n')
    const cwd = folder()
    expect(loadConfig({ cwd, env: { CONTINUO_CONFIG: join(elsewhere, 'continuo.yaml') } }).config.data).toBe(
      join(elsewhere, 'state'),
    )
    expect(loadConfig({ cwd, env: { CONTINUO_DATA: 'state' } }).config.data).toBe(join(cwd, 'state'))
  })

  it('resolves the files of a certificate likewise', () => {
    const elsewhere = folder('tls: {cert: live/cert.pem, key: live/key.pem}\n')
    const cwd = folder()
    const { config } = loadConfig({
      cwd,
      env: { CONTINUO_TLS_KEY: 'key.pem' },
      flags: { config: join(elsewhere, 'continuo.yaml') },
    })
    expect(config.tls).toEqual({ cert: join(elsewhere, 'live/cert.pem'), key: join(cwd, 'key.pem') })
  })

  it('takes a section without content as nothing said', () => {
    expect(load('limits:\n  websocket:\nkeys:\nmodels:\nport:\n').config.port).toBe(8787)
  })

  it('gives a configuration that nobody can change', () => {
    const { config } = load()
    expect(() => Object.assign(config.limits.websocket, { queued: 1 })).toThrow(TypeError)
    expect(() => Object.assign(config.engines, { other: {} })).toThrow(TypeError)
  })

  it('sends every model to the first engine where engines are listed and models are not', () => {
    expect(load('engines:\n  local: {type: chat, url: "http://127.0.0.1:1/v1"}\n').config.models).toEqual({
      '*': { engine: 'local' },
    })
    expect(load('engines:\n  simulated: {type: simulated, rate: 10}\n').config.models['*']).toEqual({
      engine: 'simulated',
    })
  })

  it('takes the secret of a key from the variable that secretEnv names, and keeps its digest only', () => {
    const yaml = 'keys:\n  - {id: ci, tenant: team, secretEnv: CI_SECRET}\n'
    const { config } = load(yaml, { CI_SECRET: 'sk-0123456789' })
    expect(config.keys).toEqual([
      { id: 'ci', tenant: 'team', secretSha256: '5c85b6dd8ccb9a87259d5b71753c6c4ad1b489f2d07600afe459137807265d76' },
    ])
  })
})

describe('what a person reads who got it wrong', () => {
  it('names the line and the nearest name for an unknown setting', () => {
    expect(failure('port: 1\nlimits:\n  websocket:\n    maxSocket: 5\n')).toMatch(
      /^continuo\.yaml:4: limits\.websocket\.maxSocket: no such setting; did you mean "maxSockets"\?/,
    )
    expect(failure('prot: 1\n')).toContain('continuo.yaml:1: prot: no such setting; did you mean "port"?')
    expect(failure('keys:\n  - {id: a, tenant: t, secrets: abcdefgh}\n')).toContain('did you mean "secret"?')
    expect(failure('models:\n  gpt-5.5:\n    engin: simulated\n')).toContain(
      'continuo.yaml:3: models."gpt-5.5".engin: no such setting; did you mean "engine"?',
    )
  })

  it('lists what is known where no name is near', () => {
    expect(failure('store: {wibble: 1}\n')).toContain('known here: kind, maxAgeDays, maxBytes')
  })

  it('names the variable or the flag that has a wrong value, and the value', () => {
    expect(failure(undefined, { PORT: 'eighty' })).toBe(
      'PORT: port: must be a whole number from 0 to 65535, not "eighty"',
    )
    expect(failure(undefined, { PORT: '65536' })).toContain('not 65536')
    expect(failure(undefined, { CONTINUO_LOG_LEVEL: 'loud' })).toContain(
      'CONTINUO_LOG_LEVEL: log.level: must be one of: trace, debug, info',
    )
    expect(failure(undefined, {}, { set: { port: '-1' }, shown: { port: '--port' } })).toContain(
      '--port: port: must be a whole number',
    )
    expect(failure(undefined, { CONTINUO_MODELS: '{a: [' })).toContain(
      'CONTINUO_MODELS: models: the text is no valid YAML',
    )
  })

  it('says all problems at once', () => {
    expect(failure('port: x\nhost: 3\n', { CONTINUO_STORE_KIND: 'redis' }).split('\n')).toHaveLength(3)
  })

  it('names an unknown flag and an unknown file', () => {
    expect(failure(undefined, {}, { set: { 'limits.drainMS': '1' } })).toBe(
      '--set limits.drainMS: no such setting; did you mean "limits.drainMs"?',
    )
    expect(failure(undefined, {}, { config: 'nowhere.yaml' })).toBe(
      'nowhere.yaml: there is no such file; check --config and CONTINUO_CONFIG',
    )
    expect(failure(undefined, { CONTINUO_CONFIG: '.' })).toContain('the file cannot be read (EISDIR)')
  })

  it('names the line of broken YAML', () => {
    expect(failure('port: 1\nhost: "a\n')).toMatch(/^continuo\.yaml:\d: this is no valid YAML: /)
    const bomb = [
      'a: &a [x, x]',
      ...'bcdefghi'.split('').map((c, n) => `${c}: &${c} [${`*${'abcdefghi'[n]}, `.repeat(9)}]`),
    ]
    expect(failure(`${bomb.join('\n')}\n`)).toContain('aliases')
    expect(failure('- a\n')).toContain('must be a map of settings')
    expect(failure('port: 1\nport: 2\n')).toContain('continuo.yaml:2')
  })

  it('warns of a variable that looks like ours, and of no other', () => {
    expect(
      load(undefined, { CONTINUO_LOG_LEVL: 'debug', CONTINUO_ZEBRA_CROSSING: '1', CONTINUO_API_KEY: 'x' }).warnings,
    ).toEqual(['CONTINUO_LOG_LEVL is no setting and was ignored; did you mean "CONTINUO_LOG_LEVEL"?'])
  })

  it('refuses an address that others can reach without keys, and takes it with one', () => {
    expect(failure('host: 0.0.0.0\n')).toMatch(
      /^continuo\.yaml:1: host: "0\.0\.0\.0" can be reached from other machines, and no keys are configured/,
    )
    expect(failure(undefined, { CONTINUO_HOST: 'gpu.example' })).toContain('CONTINUO_HOST: host')
    expect(load('host: 0.0.0.0\nkeys: [{id: a, tenant: t, secret: sk-12345678}]\n').config.host).toBe('0.0.0.0')
    for (const host of ['127.0.0.1', '127.8.0.1', '::1', 'localhost'])
      expect(load(undefined, { CONTINUO_HOST: host }).config.host).toBe(host)
  })

  it('refuses a model of an unknown engine and names the nearest', () => {
    const message = failure('engines:\n  local: {type: chat, url: x}\nmodels:\n  "*": {engine: locl}\n')
    expect(message).toBe(
      'continuo.yaml:4: models."*".engine: no engine named "locl" is listed under `engines`; did you mean "local"?; there are: simulated, local',
    )
  })

  it('refuses a star inside the name of a model, which would match nothing', () => {
    expect(failure('models:\n  "gpt-*": {engine: simulated}\n')).toMatch(
      /^continuo\.yaml:2: models\."gpt-\*": names of models are exact; only "\*" alone/,
    )
  })

  it('refuses a certificate without a key, and a key without a certificate', () => {
    expect(failure('tls:\n  cert: a.pem\n')).toContain('continuo.yaml:2: tls.cert: is given without `tls.key`')
    expect(failure('tls:\n  key: a.pem\n')).toContain('continuo.yaml:2: tls.key: is given without `tls.cert`')
  })

  it('refuses a message limit above what all messages may hold', () => {
    expect(failure('limits:\n  websocket:\n    maxHeldBytes: 1 MiB\n')).toContain(
      'continuo.yaml:3: limits.websocket.maxHeldBytes: 1048576 is less than maxMessageBytes',
    )
  })

  it('refuses a time that a timer cannot wait, since it would fire at once', () => {
    expect(failure('limits: {turnMs: 25 d}\n')).toContain('24 days')
    expect(load('limits: {turnMs: 24 d}\n').config.limits.turnMs).toBe(24 * 86_400_000)
  })

  it('never shows a secret', () => {
    const secret = 'sk-canary-4711'
    const yamls = [
      `keys:\n  - {id: a, tenant: t, secret: ${secret}}\n  - {id: b, tenant: t, secret: ${secret}}\n`,
      `keys:\n  - {id: "a b", tenant: t, secret: ${secret}}\n`,
      `keys:\n  - {id: a, tenant: t, secret: "${secret} ${secret}"}\n`,
      `keys:\n  - {id: a, tenant: t, secret: ${secret}, secretEnv: X}\n`,
      `keys: ${secret}\n`,
    ]
    for (const yaml of yamls) expect(failure(yaml, { X: secret })).not.toContain(secret)
    expect(failure('keys:\n  - {id: a, tenant: t, secretEnv: NOT_SET}\n')).toBe(
      "continuo.yaml:2: keys.0.secretEnv: the environment variable NOT_SET is not set; set it to the key's secret",
    )
  })

  it('gives the place of a problem that is found later, by path', () => {
    const loaded = load('engines:\n  main:\n    type: chat\n    url: 5\n')
    const later = loaded.locate(new ConfigError([{ path: ['engines', 'main', 'url'], message: 'must be a URL' }]))
    expect(later.message).toBe('continuo.yaml:4: engines.main.url: must be a URL')
  })

  it('answers any file with a configuration or a ConfigError', () => {
    const names = fc.constantFrom('port', 'host', 'keys', 'models', 'engines', 'limits', 'log', '__proto__', 'store')
    fc.assert(
      fc.property(fc.dictionary(names, fc.jsonValue({ maxDepth: 3 })), (tree) => {
        try {
          load(JSON.stringify(tree))
        } catch (e) {
          expect(e).toBeInstanceOf(ConfigError)
        }
      }),
      { numRuns: 150 },
    )
  })
})

describe('docs/config.md', () => {
  const doc = readFileSync(new URL('../docs/config.md', import.meta.url), 'utf8')
  /** Rows of the tables under headings of two or three signs, by name. */
  const rowsUnder = (wanted: (heading: string) => boolean) =>
    new Map(
      doc
        .split(/^(?=###? )/m)
        .filter((part) => wanted(part.split('\n')[0] ?? ''))
        .flatMap((part) => part.split('\n'))
        .filter((l) => l.startsWith('| `'))
        .map((l) => l.split('|').map((c) => c.trim()))
        .map(([, name = '', byDefault = '']) => [name.replaceAll('`', ''), byDefault.replaceAll('`', '')]),
    )
  const rows = rowsUnder((heading) => !heading.startsWith('### Options of'))

  it.each(settings.map((s) => [s.name, s] as const))('documents %s with its default', (name, setting) => {
    const shown = rows.get(name)
    expect(shown, `docs/config.md has no row for ${name}`).toBeDefined()
    // The doc may write 64 MiB for 67108864: what it writes must mean the default by the schema itself.
    const text = shown ?? ''
    const means = [text, tryJson(text)]
      .map((v) => setting.schema.safeParse(v))
      .flatMap((r) => (r.success ? [r.data] : []))
    expect(means, `docs/config.md says ${text}`).toContainEqual(setting.byDefault)
  })

  it('documents no setting that does not exist', () => {
    const known = new Set([
      ...settings.map((s) => s.name),
      ...Object.keys(keyConfig.in.shape).map((k) => `keys[].${k}`),
      'keys[].secretEnv',
      'models.NAME.engine',
      'models.NAME.codec',
      'models.NAME.tokenizer',
      'models.NAME.template',
      'models.NAME.retention',
      'models.NAME.encoder',
      'models.NAME.context',
    ])
    expect([...rows.keys()].filter((name) => !known.has(name))).toEqual([])
    for (const name of known) expect([...rows.keys()]).toContain(name)
  })

  const wired = rowsUnder((heading) => heading === '### Options of engines with a `url`')
  const none = new Map<string, string>()
  it.each([
    ['simulated', simulatedOptions, none],
    ['fleet', fleetOptions, none],
    ['llama-embedded', llamaEmbeddedOptions, none],
    ['chat', chatOptions, wired],
    ['vllm', vllmOptions, wired],
    ['sglang', sglangOptions, wired],
    ['llama-server', llamaServerOptions, wired],
    ['ollama', ollamaOptions, wired],
  ] as const)('documents every option of %s with its default', (name, schema, shared) => {
    const documented = new Map([...shared, ...rowsUnder((heading) => heading === `### Options of \`${name}\``)])
    const options = optionsOf(schema)
    expect(options.size).toBeGreaterThan(5)
    const ours = shared.size > 0 ? ['urls', 'fleet', 'apiKeyEnv'] : []
    expect([...documented.keys()].sort()).toEqual([...options.keys(), ...ours].sort())
    for (const [option, byDefault] of options)
      if (byDefault !== undefined && !byMachine.has(option))
        expect([documented.get(option), tryJson(documented.get(option) ?? '')], option).toContainEqual(byDefault)
  })

  it('names the environment variable rule that the schema follows', () => {
    for (const s of settings.filter((s) => s.path.length > 2)) expect(s.env).toMatch(/^CONTINUO_[A-Z]+(_[A-Z]+)+$/)
    expect(settings.find((s) => s.name === 'limits.websocket.maxMessageBytes')?.env).toBe(
      'CONTINUO_LIMITS_WEBSOCKET_MAX_MESSAGE_BYTES',
    )
    expect(doc).toContain('CONTINUO_LIMITS_WEBSOCKET_MAX_MESSAGE_BYTES')
  })

  it('has an example that is a valid configuration', () => {
    const yaml = /```yaml\n# continuo\.yaml[^]*?```/.exec(doc)?.[0].replace(/^```yaml\n|```$/g, '') ?? ''
    expect(load(yaml, { CI_KEY: 'sk-0123456789' }).origin.get('engines')).toBe('file')
  })
})

it('has a schema that refuses nothing of its own defaults', () => {
  const parsed = configSchema.parse({})
  expect(configSchema.parse(parsed)).toEqual(parsed)
})

/** Defaults that another machine has otherwise. */
const byMachine: ReadonlySet<string> = new Set(['threads'])

/** Options of an engine with their defaults; those of a section inside by `section.option`. */
function optionsOf(schema: z.ZodObject): Map<string, unknown> {
  return new Map(
    Object.entries(schema.shape).flatMap(([key, part]): [string, unknown][] => {
      const inner = part instanceof z.ZodPrefault ? part.def.innerType : undefined
      if (inner instanceof z.ZodObject)
        return [[key, {}], ...[...optionsOf(inner)].map(([k, v]): [string, unknown] => [`${key}.${k}`, v])]
      return [[key, part instanceof z.ZodDefault ? part.def.defaultValue : undefined]]
    }),
  )
}
function tryJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
