// Where two prompts part, over the codecs as they are; and the two sides from bodies and from the store.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openSeal } from '../src/access/seal.ts'
import { familyCodec } from '../src/codecs/codec.ts'
import { qwen3 } from '../src/codecs/hermes.ts'
import { llama3 } from '../src/codecs/llama3.ts'
import type { Retention } from '../src/codecs/family.ts'
import { loadConfig } from '../src/config.ts'
import { explain, type Explanation } from '../src/explain.ts'
import { readSides } from '../src/explain-sides.ts'
import type { Item } from '../src/protocol/items.ts'
import { parseCreate } from '../src/protocol/request.ts'
import { storeFile } from '../src/registry.ts'
import { checkRecord } from '../src/stores/record.ts'
import { sqliteStore } from '../src/stores/sql.ts'
import type { Codec, Stored } from '../src/turn/ports.ts'
import { rows } from './codecs/families.ts'
import { smallBpe } from './codecs/talks.ts'

const numRuns = Number(process.env['RUNS'] ?? 40)
type Body = Record<string, unknown>
type Text = { readonly text: string }

const codecOf = (retention: Retention = 'tool_cycle'): Codec => familyCodec(qwen3, smallBpe(qwen3), { retention })
const configOf = (cwd = mkdtempSync(join(tmpdir(), 'continuo-explain-')), env: Record<string, string> = {}) =>
  loadConfig({ cwd, env }).config
async function told(a: Body, b: Body, codec: Codec | undefined = codecOf()): Promise<Explanation> {
  const given = [a, b].map((body, n) => ({ name: `${n}`, body: { model: 'm', ...body } }))
  const { first, second } = await readSides(configOf(), given)
  return await explain(first, second, codec)
}
const textOf = (runs: readonly Text[] | undefined): string => (runs ?? []).map(({ text }) => text).join('')

const user = (content: string) => ({ role: 'user', content })
const assistant = (text: string) => ({ role: 'assistant', content: [{ type: 'output_text', text }] })
const tools = ['shell', 'read', 'write'].map((name) => ({ type: 'function', name, parameters: { type: 'object' } }))
const thought = { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Call the shell.' }] }
const call = { type: 'function_call', call_id: 'call_1', name: 'shell', arguments: '{}' }
const output = (text: string) => ({ type: 'function_call_output', call_id: 'call_1', output: text })
const body = {
  instructions: 'Be brief. It is Monday, 2026-07-27, 09:14.',
  tools,
  input: [user('List the files.'), thought, call, output('README.md')],
}

describe('two requests', () => {
  it('that are the same are identical, whatever ids and orders of keys they have', async () => {
    const input = body.input.map((item, n) => Object.fromEntries(Object.entries({ id: `x_${n}`, ...item }).reverse()))
    const same = await told(body, { input, tools, instructions: body.instructions, metadata: { a: 'b' } })
    expect(same).toMatchObject({ relation: 'identical', prefill: 0, again: 0 })
    expect(same.common).toBe(same.second.tokens)
  })

  it('of which the second goes on say how many tokens are new, and which the model wrote', async () => {
    const more = { ...body, input: [...body.input, assistant('There is a README.'), call, output('src')] }
    const [there, back] = [await told(body, more), await told(more, body)]
    expect(there).toMatchObject({ relation: 'extends', again: 0, unit: 'tokens' })
    expect(there.prefill).toBe(there.second.tokens - there.common)
    expect(there.own).toBeGreaterThan(0)
    expect(there.own).toBeLessThan(there.prefill)
    expect(there.parted).toBeUndefined()
    expect(back).toMatchObject({ relation: 'is the beginning', again: 0 })
  })

  it('with another time in the instructions part in the head, at that very character', async () => {
    const found = await told(body, { ...body, instructions: body.instructions.replace('09:14', '09:15') })
    expect(found.parted).toMatchObject({ place: { in: 'head', part: 'instructions' }, cause: 'clock' })
    expect(textOf(found.parted?.around?.common)).toMatch(/2026-07-27, 09:1$/)
    expect(textOf(found.parted?.around?.first)).toMatch(/^4\./)
    expect(textOf(found.parted?.around?.second)).toMatch(/^5\./)
    expect(found.prefill).toBe(found.second.tokens - found.common)
    expect(found.again).toBeGreaterThan(found.prefill / 2)
  })

  const heads: readonly (readonly [string, Body, object])[] = [
    ['other instructions', { instructions: 'Be thorough.' }, { part: 'instructions', cause: 'instructions' }],
    ['tools in another order', { tools: tools.toReversed() }, { part: 'tools', cause: 'order' }],
    ['a tool more', { tools: [...tools, { ...tools[0], name: 'z' }] }, { part: 'tools', cause: 'tools' }],
  ]
  it.each(heads)('with %s part in the head', async (_, change, { part, cause }: { part?: string; cause?: string }) => {
    const { parted, relation } = await told(body, { ...body, ...change })
    expect([relation, parted?.place, parted?.cause]).toEqual(['parts', { in: 'head', part }, cause])
  })

  it('with another effort part where the model begins', async () => {
    const found = await told(body, { ...body, reasoning: { effort: 'none' } })
    expect(found).toMatchObject({ relation: 'parts', again: 0, parted: { place: { in: 'opening' }, cause: 'effort' } })
  })

  it('part where the format writes the tools, which may be an item', async () => {
    const codec = familyCodec(llama3, smallBpe(llama3))
    const { parted } = await told(body, { ...body, tools: tools.toReversed() }, codec)
    expect(parted).toMatchObject({ place: { in: 'item', item: 0, role: 'user' }, cause: 'order' })
  })

  it('part at the reasoning that a new user message drops, and do not where it is kept', async () => {
    const more = { ...body, input: [...body.input, assistant('There is a README.'), user('Read it.')] }
    const { parted, again } = await told(body, more)
    expect(parted).toMatchObject({ place: { in: 'item', item: 1, type: 'reasoning' }, cause: 'reasoning' })
    expect(textOf(parted?.around?.first)).toContain('<think>')
    expect(parted?.around?.first.some(({ text, control }) => control && text === '<think>')).toBe(true)
    expect(again).toBeGreaterThan(0)
    expect(await told(body, more, codecOf('all'))).toMatchObject({ relation: 'extends' })
  })

  it('part at an item that was edited, taken out or put in', async () => {
    const edited = await told(body, { ...body, input: [...body.input.slice(0, 3), output('README.md src')] })
    expect(edited.parted).toMatchObject({
      place: { in: 'item', item: 3, type: 'function_call_output', call_id: 'call_1' },
      cause: 'edited',
      why: 'its output changed at character 9',
    })
    const long = { input: [user('a'), assistant('b'), user('c'), assistant('d'), user('e')] }
    const short = { input: [...long.input.slice(0, 1), ...long.input.slice(3)] }
    expect((await told(long, short)).parted).toMatchObject({ place: { item: 1 }, cause: 'removed' })
    expect((await told(short, long)).parted).toMatchObject({ place: { item: 1 }, cause: 'inserted' })
    const clock = (time: string) => ({ input: [user(`It is ${time}. Hello.`), assistant('b'), user('c')] })
    expect((await told(clock('9:14'), clock('9:15'))).parted).toMatchObject({ place: { item: 0 }, cause: 'old clock' })
  })

  it('for different models share nothing', async () => {
    const found = await told(body, { ...body, model: 'n' })
    expect(found).toMatchObject({ common: 0, parted: { place: { in: 'model' }, cause: 'model' } })
    expect(found.prefill).toBe(found.second.tokens)
  })

  it('are compared by items and settings where no codec writes them', async () => {
    const none = async (change: Body): Promise<Explanation> => {
      const given = [body, { ...body, ...change }].map((b, n) => ({ name: `${n}`, body: { model: 'm', ...b } }))
      const { first, second } = await readSides(configOf(), given)
      return await explain(first, second, undefined)
    }
    expect(await none({})).toMatchObject({ relation: 'identical', unit: 'estimated tokens', prefill: 0 })
    const longer = await none({ input: [...body.input, assistant('Done.'), user('Thanks.')] })
    expect(longer.relation).toBe('extends')
    expect(longer.own).toBeGreaterThan(0)
    expect(longer.own).toBeLessThan(longer.prefill)
    const edited = await none({ input: [...body.input.slice(0, 3), output('src')] })
    expect(edited.parted).toMatchObject({ place: { item: 3 }, cause: 'edited' })
    expect(textOf(edited.parted?.around?.second)).toMatch(/^src"/)
    expect(edited.common).toBeGreaterThan(edited.prefill)
    expect((await none({ tools: tools.slice(1) })).parted).toMatchObject({ place: { in: 'head', part: 'tools' } })
  })

  const text = fc.string({ minLength: 1, maxLength: 30, unit: 'grapheme' }).map((t) => `x${t}`)
  it.each(rows.map(({ family }) => [family.name, family] as const))(
    'of %s part at the item whose text was changed, and nowhere without a change',
    async (_, family) => {
      const codec = familyCodec(family, smallBpe(family))
      await fc.assert(
        fc.asyncProperty(fc.array(text, { minLength: 1, maxLength: 6 }), fc.nat(), text, async (texts, pick, to) => {
          const changed = pick % texts.length
          const talk = (of: readonly string[]) => ({ input: of.map((t, n) => (n % 2 === 0 ? user(t) : assistant(t))) })
          const other = texts.map((t, n) => (n === changed ? `${to}!${t}` : t))
          const found = await told(talk(texts), talk(other), codec)
          expect(found.parted?.place).toMatchObject({ in: 'item', item: changed })
          expect(found.common).toBeLessThan(found.second.tokens)
          expect((await told(talk(texts), talk(texts), codec)).relation).toBe('identical')
        }),
        { numRuns: Math.max(3, Math.ceil(numRuns / 8)) },
      )
    },
  )
})

describe('a stored response', () => {
  const parsed = (input: unknown): Item[] =>
    parseCreate({ model: 'm', input }).input.map((item, n) => ({ ...item, id: `item_${n}` }) as Item)
  function record(id: string, parent: string | undefined, more: Partial<Stored['response']>, sealed?: string): Stored {
    const input = parsed([user(`Question of ${id}`)])
    const said = parsed([
      ...(sealed === undefined ? [] : [{ type: 'reasoning', summary: [], encrypted_content: sealed }]),
      assistant(`Answer of ${id}`),
    ])
    const { response } = checkRecord(id, 1_780_000_000)
    const links: Stored['links'] = [
      { from: 'input', items: input },
      { from: 'model', items: said },
    ]
    return { owner: 'local/local', parent, input, links, response: { ...response, model: 'm', ...more } }
  }
  async function stored(...records: Stored[]) {
    const config = configOf()
    const store = await sqliteStore({ path: join(config.data, storeFile) })
    await store.save(records)
    await store.close()
    return config
  }

  it('is compared with the one it follows, and the store stays as it is', async () => {
    const config = await stored(
      record('resp_1', undefined, { instructions: 'It is 9:14.' }),
      record('resp_2', 'resp_1', { instructions: 'It is 9:14.' }),
      record('resp_3', 'resp_2', { instructions: 'It is 9:15.' }),
    )
    const file = join(config.data, storeFile)
    const before = readFileSync(file)
    const of = async (id: string): Promise<Explanation> => {
      const { first, second } = await readSides(config, [{ name: id, response: id }])
      return await explain(first, second, codecOf())
    }
    const [second, third] = [await of('resp_2'), await of('resp_3')]
    expect(second).toMatchObject({ relation: 'extends', first: { items: 2 }, second: { items: 3 } })
    expect(third).toMatchObject({ first: { items: 4 }, second: { items: 5 }, parted: { cause: 'clock' } })
    await expect(of('resp_1')).rejects.toThrow('is the first of its conversation')
    await expect(of('resp_9')).rejects.toThrow('No response resp_9 is in the store')
    expect(readFileSync(file).equals(before)).toBe(true)
    expect(existsSync(join(config.data, 'seal.key'))).toBe(false)
  })

  it('is what a request goes on from', async () => {
    const config = await stored(record('resp_1', undefined, {}))
    const next = { name: 'b', body: { model: 'm', previous_response_id: 'resp_1', input: 'And now?' } }
    const { first, second } = await readSides(config, [{ name: 'resp_1', response: 'resp_1' }, next])
    expect(await explain(first, second, codecOf())).toMatchObject({ relation: 'extends', second: { items: 3 } })
    const lost = { ...next, body: { ...next.body, previous_response_id: 'resp_0' } }
    await expect(readSides(config, [lost, next])).rejects.toThrow(
      "b cannot be continued from the store of this configuration: Previous response with id 'resp_0' not found.",
    )
  })

  it('has its reasoning unsealed with the key of the data folder, else counts what stays sealed', async () => {
    const config = configOf()
    const seal = await openSeal({ keyFile: join(config.data, 'seal.key') })
    const sealed = seal.seal('Secret thought', 'local', 'reasoning')
    const store = await sqliteStore({ path: join(config.data, storeFile) })
    await store.save([record('resp_1', undefined, {}, sealed), record('resp_2', 'resp_1', {})])
    await store.close()
    const read = async (of = config) => await readSides(of, [{ name: 'resp_2', response: 'resp_2' }])
    const opened = await read()
    expect(opened.sealed).toBe(0)
    expect(JSON.stringify(opened.first.chain.all())).toContain('Secret thought')
    const elsewhere = await stored(record('resp_1', undefined, {}, sealed), record('resp_2', 'resp_1', {}))
    const closed = await read(elsewhere)
    expect(closed.sealed).toBeGreaterThan(0)
    expect(JSON.stringify(closed.first.chain.all())).not.toContain('Secret thought')
  })

  it('is not looked for where there is no store, and none is made', async () => {
    const config = configOf()
    await expect(readSides(config, [{ name: 'resp_1', response: 'resp_1' }])).rejects.toThrow('There is no store at')
    expect(existsSync(config.data)).toBe(false)
    mkdirSync(config.data)
    new Database(join(config.data, storeFile)).exec('create table notes (text)').close()
    await expect(readSides(config, [{ name: 'resp_1', response: 'resp_1' }])).rejects.toThrow('is no store of this')
    const memory = configOf(undefined, { CONTINUO_STORE_KIND: 'memory' })
    await expect(readSides(memory, [{ name: 'resp_1', response: 'resp_1' }])).rejects.toThrow(
      'in the process of the server',
    )
  })

  it('is not needed for requests that bring everything', async () => {
    const config = configOf()
    await readSides(config, [
      { name: 'a', body: { model: 'm', input: 'a' } },
      { name: 'b', body: { model: 'm', input: 'b' } },
    ])
    expect(existsSync(config.data) ? readdirSync(config.data) : []).toEqual([])
  })
})
