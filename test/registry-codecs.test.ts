import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { qwen3 } from '../src/codecs/hermes.ts'
import { ConfigError, loadConfig } from '../src/config.ts'
import { createEngine, createModels } from '../src/registry.ts'
import { codecNames, type Told } from '../src/registry-codecs.ts'
import { Chain } from '../src/turn/chain.ts'
import type { Codec } from '../src/turn/ports.ts'
import { rows } from './codecs/families.ts'
import { settingsOf } from './codecs/talks.ts'
import { smallJson } from './tokenizers/small.ts'

const folder = mkdtempSync(join(tmpdir(), 'continuo-codecs-'))
const file = (name: string, content: unknown): string => {
  const path = join(folder, name)
  mkdirSync(join(path, '..'), { recursive: true })
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}
const chatml = `{%- for m in messages -%}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}`
const controls = [...new Set([...qwen3.needs, ...qwen3.stops, ...qwen3.markers])]
const tokenizer = file('tokenizer.json', smallJson(controls))
const template = file('chatml.jinja', chatml)

const closing: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
  vi.unstubAllEnvs()
})
async function served(listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve))))
  const address = server.address()
  return `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
}
const answering = (answers: Readonly<Record<string, unknown>>): Promise<string> =>
  served((request, answer) => {
    const value = answers[request.url ?? '']
    answer.statusCode = value === undefined ? 404 : 200
    answer.setHeader('content-type', 'application/json').end(JSON.stringify(value ?? {}))
  })

type Options = Readonly<Record<string, unknown>>
const simulated = { type: 'simulated', tokens: true }
async function codec(model: Options, engine: Options = simulated, told?: Told): Promise<Codec> {
  const env = {
    CONTINUO_ENGINES: JSON.stringify({ e: engine }),
    CONTINUO_MODELS: JSON.stringify({ m: { engine: 'e', ...model } }),
  }
  const models = await createModels(loadConfig({ cwd: folder, env }).config, told)
  closing.push(() => models.close())
  const made = models.resolve('m').codec
  if (!made) throw new Error('the model has no codec')
  return made
}
async function refusal(model: Options, engine?: Options): Promise<string> {
  const error: unknown = await codec(model, engine).catch((e: unknown) => e)
  if (!(error instanceof ConfigError)) throw error
  return error.message
}

describe('a wrong tokenizer', () => {
  const forms = "the path of a tokenizer.json, the path of the model's folder, or its name on the hub (org/model)"

  it('that is not there is named with the folder it was looked for in', async () => {
    expect(await refusal({ tokenizer: './nowhere' })).toBe(
      `models.m.tokenizer: there is no file or folder './nowhere' in ${process.cwd()}; give ${forms}`,
    )
  })
  it('that only looks like a name on the hub is told to be no file here either', async () => {
    vi.stubEnv('HF_ENDPOINT', await answering({}))
    vi.stubEnv('HOME', mkdtempSync(join(folder, 'home-')))
    const said = await refusal({ tokenizer: 'models/tokenizer.json' })
    expect(said).toContain(`models.m.tokenizer: there is no file or folder 'models/tokenizer.json' in ${process.cwd()}`)
    expect(said).toContain('and the hub gave none: models/tokenizer.json has no tokenizer.json.')
    expect(said).toContain(`Give ${forms}; HF_ENDPOINT names another hub`)
  })
  it('is asked for where a folder has none, a file is broken or of an unknown kind, or the engine tells none', async () => {
    const empty = join(folder, 'empty')
    mkdirSync(empty)
    const kinds: [unknown, string][] = [
      [empty, `${empty} has no tokenizer.json. Give`],
      [file('broken.json', '{"model":'), 'broken.json is not valid JSON; fetch it again. Give'],
      [file('strange.json', { model: { type: 'Strange' } }), 'strange.json cannot be used.'],
      [undefined, 'the engine does not tell its tokenizer; give'],
    ]
    for (const [path, why] of kinds) {
      const said = await refusal(path === undefined ? {} : { tokenizer: path })
      expect(said).toMatch(/^models\.m\.tokenizer: /)
      expect(said).toContain(why)
      expect(said).toContain(forms)
    }
  })
  it('that the engine names and only its own machine has is asked for', async () => {
    const url = await answering({ '/v1/models': { data: [{ id: 'm', root: '/models/qwen', max_model_len: 4096 }] } })
    expect(await refusal({}, { type: 'vllm', url })).toBe(
      `models.m.tokenizer: the engine says that its model is '/models/qwen', which is not on this machine; give ${forms}`,
    )
  })
  it('that makes other ids than the engine is refused with the first text that differs', async () => {
    const url = await served((request, answer) => {
      answer.setHeader('content-type', 'application/json')
      answer.end(request.url === '/props' ? JSON.stringify({ chat_template: chatml }) : '{"tokens":[1,2]}')
    })
    const said = await refusal({ tokenizer }, { type: 'llama-server', url })
    expect(said).toContain(
      'models.m.tokenizer: the engine \'e\' makes other ids of the same text: "Hello, world!" is [',
    )
    expect(said).toContain('give the tokenizer of the model that it serves, or use an engine of type chat')
  })
})

describe('a wrong codec', () => {
  it('that does not exist is refused with the nearest one and all there are', async () => {
    expect(await refusal({ tokenizer, codec: 'qwen33' })).toMatch(
      /^models\.m\.codec: no such codec; did you mean "qwen3"\?; there are: qwen2\.5, .*, jinja$/,
    )
    expect(await refusal({ tokenizer, codec: 'constructor' })).toContain('no such codec')
  })
  it('that the tokenizer has no tokens for is refused with those it lacks', async () => {
    expect(await refusal({ tokenizer, codec: 'gpt-oss' })).toMatch(
      /^models\.m\.codec: the tokenizer lacks "<\|start\|>", .* which the chat format 'gpt-oss' needs; choose another/,
    )
  })
  it('is asked for where no template tells the format; of an engine that takes text `jinja` is not offered', async () => {
    expect(await refusal({ tokenizer })).toMatch(
      /^models\.m\.codec: no template is known, .*; give `codec`, .*, jinja$/,
    )
    const url = await answering({ '/api/show': {} })
    const ollama = { type: 'ollama', url, model: 'qwen3' }
    expect(await refusal({}, ollama)).toMatch(/^models\.m\.codec: no template is known, .*kimi-k2-thinking$/)
    expect(await refusal({ codec: 'jinja', template }, ollama)).toMatch(
      /^models\.m\.codec: this engine is sent text, .*kimi-k2-thinking$/,
    )
  })
  it('is the way to write calls that does not exist', async () => {
    expect(await refusal({ tokenizer, template, codec: 'jinja:hermess' })).toMatch(
      /^models\.m\.codec: no such way to write calls; did you mean "hermes"\?; behind `jinja:` there may be: hermes, /,
    )
  })
})

describe('a template', () => {
  it('that is not there or cannot be read is named', async () => {
    expect(await refusal({ tokenizer, template: 'none.jinja' })).toBe(
      `models.m.template: 'none.jinja' cannot be read in ${process.cwd()}; give the path of a Jinja file`,
    )
    const bad = file('bad.jinja', '{% if %}')
    expect(await refusal({ tokenizer, template: bad })).toMatch(
      /^models\.m\.template: the chat template cannot be read: /,
    )
    const known = file('bad-qwen.jinja', '{# <|im_start|> <tool_call> <think> #}{% if %}')
    expect(await refusal({ tokenizer, template: known })).toMatch(/^models\.m\.template: /)
    expect(await refusal({ tokenizer, codec: 'jinja' })).toContain('models.m.template: codec `jinja` needs a template')
  })
  it('decides what is kept of old reasoning', async () => {
    expect(await refusal({ tokenizer, template, codec: 'jinja', retention: 'all' })).toMatch(/^models\.m\.retention: /)
  })
  it('that is none of ours is used as it is, and its calls are read as it writes them', async () => {
    const settings = settingsOf({ tools: [{ type: 'function', name: 'ls', parameters: {}, strict: false }] })
    const chain = Chain.root('o', 0).add({
      response: 'r',
      from: 'input',
      items: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'go' }] }],
    })
    const said = async (name: string): Promise<string[]> => {
      const made = await codec({ tokenizer, template, codec: name })
      expect(made.id).toMatch(/^jinja-/)
      const [open, close] = [made.tokenizer.control('<tool_call>') ?? -1, made.tokenizer.control('</tool_call>') ?? -1]
      const inside = Array.from(await made.tokenizer.encode('{"name": "ls", "arguments": {}}'))
      const decoder = made.decoder(settings, chain)
      const deltas = [...decoder.push({ tokens: [open, ...inside, close] })]
      return [...deltas, ...decoder.end('stop')].map((delta) => delta.type)
    }
    expect(await said('auto')).toContain('call')
    expect(await said('jinja:hermes')).toContain('call')
    expect(await said('jinja:none')).not.toContain('call')
  })
})

describe('an engine that cannot be asked', () => {
  const vllm = { type: 'vllm', url: 'http://127.0.0.1:1' }
  it('is named with what to do; with tokenizer and codec given it may come later', async () => {
    expect(await refusal({}, vllm)).toBe(
      "models.m: the engine 'e' could not be asked about its model: The engine 'e' is down at 127.0.0.1:1 (connection refused). Correct it under `engines`, or start it first; with both `tokenizer` and `codec` given here it may come later",
    )
    expect((await codec({ tokenizer, codec: 'qwen3' }, vllm)).id).toMatch(/^qwen3\/tool_cycle\//)
  })
  it('is refused before it starts where its package is missing', async () => {
    const model = file('m.gguf', 'GGUF')
    expect(await refusal({}, { type: 'llama-embedded', model, modules: folder })).toBe(
      `engines.e: the package node-llama-cpp is not installed in ${folder}; install it with "npm install --prefix ${folder} --save-exact node-llama-cpp@3.21.1".`,
    )
  })
})

it('what is downloaded is told, under the name of its model', async () => {
  const json = JSON.stringify(smallJson(controls))
  vi.stubEnv(
    'HF_ENDPOINT',
    await served((request, answer) => {
      answer.statusCode = request.url?.endsWith('/tokenizer.json') ? 200 : 404
      answer.end(answer.statusCode === 200 ? json : '')
    }),
  )
  vi.stubEnv('HOME', mkdtempSync(join(folder, 'home-')))
  const seen: [string, number, number | undefined][] = []
  const onProgress = (...one: [string, number, number | undefined]): void => void seen.push(one)
  await codec({ tokenizer: 'org/model', codec: 'qwen3' }, simulated, { note: () => {}, onProgress })
  expect(seen.at(-1)?.slice(0, 2)).toEqual(['org/model/tokenizer.json', Buffer.byteLength(json)])
})

describe('docs/engines.md', () => {
  const doc = readFileSync(new URL('../docs/engines.md', import.meta.url), 'utf8')
  const [, section = ''] = doc.split('\n## Codecs\n')
  const [table = ''] = section.split('\n## ')
  const shown = new Map(
    table
      .split('\n')
      .filter((line) => line.startsWith('| `'))
      .map((line) => line.split('|').map((cell) => cell.trim().replaceAll('`', '')))
      .map(([, name = '', , , retention = '']) => [name, retention]),
  )
  it('has a row for every codec', () => {
    expect([...shown.keys()]).toEqual(codecNames)
  })
  it('says what each does with old reasoning', () => {
    for (const { family } of rows)
      expect([family.name, shown.get(family.name)]).toEqual([family.name, family.retention])
  })
  it('has configurations that are valid', async () => {
    const examples = [...doc.matchAll(/```yaml\n(engines:[^]*?)```/g)].map(([, yaml = '']) => yaml)
    expect(examples.length).toBeGreaterThan(4)
    for (const yaml of examples) {
      const { config } = loadConfig({ cwd: join(file(`${examples.indexOf(yaml)}/continuo.yaml`, yaml), '..'), env: {} })
      const name = config.models['*']?.engine ?? ''
      const engine = config.engines[name]
      expect(name).toBe('main')
      // That package is not installed here: so far all options have been accepted.
      if (engine?.type === 'llama-embedded')
        await expect(createEngine(name, { ...engine, modules: folder })).rejects.toThrow(
          'node-llama-cpp is not installed',
        )
      else await (await createEngine(name, engine ?? { type: '' })).close()
    }
  })
})

it('shares its tokenizer with every model that names the same one', async () => {
  const config = loadConfig({
    cwd: folder,
    env: {
      CONTINUO_ENGINES: JSON.stringify({ sim: { type: 'simulated', tokens: true } }),
      CONTINUO_MODELS: JSON.stringify(
        Object.fromEntries(['a', 'b'].map((name) => [name, { engine: 'sim', codec: 'qwen3', tokenizer }])),
      ),
    },
  }).config
  const models = await createModels(config)
  expect(models.resolve('a').codec?.tokenizer).toBe(models.resolve('b').codec?.tokenizer)
  await models.close()
})
