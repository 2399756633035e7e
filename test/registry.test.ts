import { mkdtempSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ConfigError, loadConfig } from '../src/config.ts'
import { ApiError } from '../src/protocol/errors.ts'
import { createEngine, createModels, createStore, storeFile } from '../src/registry.ts'

const cwd = () => mkdtempSync(join(tmpdir(), 'continuo-registry-'))
const configOf = (env: Record<string, string> = {}) => loadConfig({ cwd: cwd(), env }).config

async function problem(
  options: { type: string; [option: string]: unknown },
  env: NodeJS.ProcessEnv = {},
): Promise<string> {
  const error: unknown = await createEngine('main', options, env).catch((e: unknown) => e)
  expect(error).toBeInstanceOf(ConfigError)
  return error instanceof Error ? error.message : ''
}

describe('an engine', () => {
  it('is refused with the nearest type where its type does not exist', async () => {
    expect(await problem({ type: 'chatt' })).toBe(
      'engines.main.type: no such type of engine; did you mean "chat"?; there are: simulated, vllm, sglang, llama-server, llama-embedded, ollama, chat',
    )
    expect(await problem({ type: 'constructor' })).toContain(
      'there are: simulated, vllm, sglang, llama-server, llama-embedded, ollama, chat',
    )
  })

  it('is refused with the nearest option where it has no such option', async () => {
    expect(await problem({ type: 'simulated', round: 5 })).toMatch(
      /^engines\.main\.round: this type of engine has no such option; did you mean "rounds"\?/,
    )
    expect(await problem({ type: 'chat', url: 'http://127.0.0.1:1/v1', can: { tool: false } })).toContain(
      'engines.main.can.tool: this type of engine has no such option',
    )
  })

  it('is refused where an option has a wrong value, without the value', async () => {
    expect(await problem({ type: 'chat', url: 'ftp://user:canary@h' })).toMatch(/^engines\.main\.url: /)
    expect(await problem({ type: 'chat', url: 'ftp://user:canary@h' })).not.toContain('canary')
    expect(await problem({ type: 'chat' })).toContain('engines.main.url')
    expect(await problem({ type: 'simulated', scenario: '/nowhere/scenario.yaml' })).toContain('/nowhere/scenario.yaml')
  })

  it('sends the key that apiKeyEnv names, and is refused where the variable is not set', async () => {
    const asked: (string | undefined)[] = []
    const server = createServer((request, answer) => {
      asked.push(`${request.url} ${request.headers.authorization}`)
      answer.setHeader('content-type', 'application/json')
      answer.end('{"object":"list","data":[{"id":"qwen"}]}')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : 0
    const engine = await createEngine(
      'main',
      { type: 'chat', url: `http://127.0.0.1:${port}/v1`, apiKeyEnv: 'GPU_KEY' },
      { GPU_KEY: 'sk-1' },
    )
    expect(await engine.probe(AbortSignal.timeout(5000))).toEqual(['qwen'])
    expect(asked).toEqual(['/v1/models Bearer sk-1'])
    expect(engine.id).toBe('main')
    await engine.close()
    await new Promise((resolve) => server.close(resolve))
    expect(await problem({ type: 'chat', url: 'http://127.0.0.1:1/v1', apiKeyEnv: 'GPU_KEY' })).toBe(
      "engines.main.apiKeyEnv: the environment variable GPU_KEY is not set; set it to the engine's key",
    )
  })

  it('with a wrong list of urls says what the list must be', async () => {
    const url = 'http://127.0.0.1:1/v1'
    expect(await problem({ type: 'chat', urls: [] })).toContain('engines.main.urls: must be a list of URLs')
    expect(await problem({ type: 'chat', urls: [url], url })).toContain('either `url` or `urls`')
    expect(await problem({ type: 'chat', urls: [url, url] })).toContain('names a replica twice')
    expect(await problem({ type: 'chat', urls: [url, 'nonsense'] })).toContain('engines.main.urls.1.url')
  })

  it('with several urls goes on with the replica that lives', async () => {
    const server = createServer((_, answer) =>
      answer.setHeader('content-type', 'application/json').end('{"data":[{"id":"qwen"}]}'),
    )
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = server.address()
    const live = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/v1`
    const engine = await createEngine('pair', { type: 'chat', urls: [live, `${live}/`] }, {})
    expect(engine.id).toBe('pair')
    expect(await engine.probe(AbortSignal.timeout(5000))).toContain('qwen')
    await engine.close()
    await new Promise((resolve) => server.close(resolve))
  })
})

describe('models', () => {
  it('answer by name, else by "*" under the name that was asked for', async () => {
    const models = await createModels(
      configOf({ CONTINUO_MODELS: '{"*": {engine: simulated, context: 9}, big: {engine: simulated, context: 99}}' }),
    )
    expect(models.resolve('big')).toMatchObject({ name: 'big', context: 99 })
    expect(models.resolve('gpt-5.5')).toMatchObject({ name: 'gpt-5.5', context: 9 })
    expect(models.resolve('constructor').name).toBe('constructor')
    expect(models.resolve('big').engine).toBe(models.resolve('other').engine)
    expect(models.list()).toEqual(['big'])
    expect([...models.engines.keys()]).toEqual(['simulated'])
    await models.close()
  })

  it('without "*" refuse an unknown name with model_not_found', async () => {
    const models = await createModels(configOf({ CONTINUO_MODELS: '{big: {engine: simulated}}' }))
    for (const name of ['small', '*', '', '__proto__']) {
      const refused = (() => {
        try {
          return models.resolve(name)
        } catch (e) {
          return e
        }
      })()
      expect(refused).toBeInstanceOf(ApiError)
      expect(refused).toMatchObject({ code: 'model_not_found', status: 404, param: 'model' })
    }
    await models.close()
  })

  it('name the place in the file of an option that their engine refuses', async () => {
    const loaded = loadConfig({ cwd: cwd(), env: { CONTINUO_ENGINES: '{main: {type: chat, url: nonsense}}' } })
    const error: unknown = await createModels(loaded.config).catch((e: unknown) => e)
    expect(error instanceof ConfigError && loaded.locate(error).message).toMatch(
      /^CONTINUO_ENGINES: engines\.main\.url: /,
    )
  })
})

describe('the store', () => {
  it.each(['sqlite', 'memory'])('of kind %s opens and passes its own check', async (kind) => {
    const config = configOf({ CONTINUO_STORE_KIND: kind })
    const store = await createStore(config)
    await store.check()
    await store.close()
    expect(join(config.data, storeFile)).toMatch(/data\/continuo\.db$/)
  })
})
