import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { loadScenario } from '../../src/engines/scenario.ts'
import { simulated, type SimulatedOptions } from '../../src/engines/simulated.ts'
import type { Item } from '../../src/protocol/items.ts'
import type { Settings } from '../../src/protocol/request.ts'
import type { Delta } from '../../src/turn/ports.ts'
import { assistant, callTo, chainOf, customTool, output, read, tool, user } from './simulated-generations.ts'

const folder = mkdtempSync(join(tmpdir(), 'continuo-scenario-'))
afterAll(() => rmSync(folder, { recursive: true }))
const file = (text: string): string => {
  const path = join(folder, 'scenario.yaml')
  writeFileSync(path, text)
  return path
}
const said = (deltas: readonly Delta[], type: 'reasoning' | 'refusal'): string =>
  deltas.map((d) => (d.type === type ? d.text : '')).join('')
type Turn = { steps: object[]; when?: object; times?: number }
const script = (turns: Turn[], rest: object = {}) => simulated({ scenario: { turns, ...rest } } as SimulatedOptions)
const play = (turns: Turn[], items: Item[] = [user('x')], some: Partial<Settings> = {}) =>
  read(script(turns), callTo(chainOf(items), some))

describe('a scenario', () => {
  it('is read from a YAML file and played step by step', async () => {
    const path = file(`
turns:
  - steps:
      - reasoning: Think first.
      - text: Let me look.
      - call: { name: get_weather, arguments: { city: Rome } }
      - call: { name: apply_patch, input: "*** Begin Patch" }
      - usage: { cached: 7 }
  - steps:
      - json: { answer: [1, null] }
      - refusal: I would rather not.
      - finish: length
`)
    const engine = simulated({ scenario: path })
    const one = await read(
      engine,
      callTo(chainOf([user('x')]), { tools: [tool('get_weather'), customTool('apply_patch')] }),
    )
    expect(said(one.deltas, 'reasoning')).toBe('Think first.')
    expect(one.text).toBe('Let me look.')
    expect(one.calls).toEqual([
      { kind: 'function', name: 'get_weather', namespace: undefined, input: '{"city":"Rome"}' },
      { kind: 'custom', name: 'apply_patch', namespace: undefined, input: '*** Begin Patch' },
    ])
    expect([one.finish, one.usage?.cached]).toEqual(['stop', 7])
    const two = await read(engine, callTo(chainOf([user('x'), assistant('y'), user('z')])))
    expect(JSON.parse(two.text)).toEqual({ answer: [1, null] })
    expect(said(two.deltas, 'refusal')).toBe('I would rather not.')
    expect(two.finish).toBe('length')
  })
  it('counts turns by what the model has said in this conversation, so that each conversation has the whole script', async () => {
    const engine = script([{ steps: [{ text: 'first' }] }, { steps: [{ text: 'second' }] }])
    const at = async (items: Item[]) => (await read(engine, callTo(chainOf(items)))).text
    expect(await at([user('a')])).toBe('first')
    expect(await at([user('b')])).toBe('first')
    const call: Item = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' }
    expect(await at([user('b'), { type: 'reasoning', summary: [] }, call, output('c', 'x')])).toBe('second')
    expect(await at([user('b'), call, output('c', 'x'), assistant('y'), user('z')])).toContain('simulated answer')
  })
  it('counts requests where it says so, whoever makes them', async () => {
    const engine = script([{ steps: [{ text: 'first' }] }, { steps: [{ text: 'second' }] }], { by: 'requests' })
    const texts: string[] = []
    for (let n = 0; n < 3; n++) texts.push((await read(engine, callTo(chainOf([user('same')])))).text)
    expect(texts.slice(0, 2)).toEqual(['first', 'second'])
    expect(texts[2]).toContain('simulated answer')
  })
  it('prefers a turn whose conditions all hold, as often as it may be used', async () => {
    const turns: Turn[] = [
      { steps: [{ text: 'in order' }] },
      { when: { contains: 'weather', tool: 'get_weather' }, times: 1, steps: [{ text: 'weather' }] },
      { when: { model: 'other' }, steps: [{ text: 'model' }] },
      { when: { output: 'ENOENT' }, steps: [{ text: 'failed' }] },
    ]
    const engine = script(turns)
    const tools = [tool('get_weather')]
    const answered = async (items: Item[], some: Partial<Settings> = {}) =>
      (await read(engine, callTo(chainOf(items), some))).text
    expect(await answered([user('the weather?')])).toBe('in order')
    expect(await answered([user('the weather?')], { tools })).toBe('weather')
    expect(await answered([user('the weather?')], { tools })).toBe('in order')
    expect(await answered([user('x')], { model: 'other' })).toBe('model')
    expect(await answered([user('x'), output('c', 'ENOENT: no such file')])).toBe('failed')
  })
  it('makes the arguments it does not give, valid for the tool, in its namespace', async () => {
    const tools = [
      {
        type: 'namespace' as const,
        name: 'ns',
        description: '',
        tools: [tool('plan', { days: { type: 'integer', minimum: 3 } })],
      },
    ]
    const { calls } = await play(
      [{ steps: [{ call: { name: 'plan' } }, { call: { name: 'unknown', arguments: '{"broken' } }] }],
      [user('x')],
      { tools },
    )
    expect(calls).toEqual([
      { kind: 'function', name: 'plan', namespace: 'ns', input: '{"days":3}' },
      { kind: 'function', name: 'unknown', namespace: undefined, input: '{"broken' },
    ])
  })
  it('makes one call only where parallel calls are not allowed', async () => {
    const turns = [{ steps: [{ call: { name: 'a' } }, { text: 'and' }, { call: { name: 'b' } }] }]
    expect((await play(turns)).calls.map((c) => c.name)).toEqual(['a', 'b'])
    expect((await play(turns, [user('x')], { parallel_tool_calls: false })).calls.map((c) => c.name)).toEqual(['a'])
  })
  it('speaks as many tokens as it is told to, and waits as long', async () => {
    const { usage, text } = await play([{ steps: [{ tokens: 1234 }, { pause: 1 }, { tokens: 6 }] }])
    expect(usage?.output).toBe(1240)
    expect(text).not.toBe('')
  })
  it('is refused with the place and what was expected there', () => {
    const load = (text: string) => () => loadScenario(file(text))
    expect(load('turns: []')).toThrow(/scenario\.yaml: turns: /)
    expect(load('turns: [{ steps: [{ txt: a }] }]')).toThrow(
      /scenario\.yaml: turns\.0\.steps\.0: no step: expected one of text/,
    )
    expect(load('turns: [{ steps: [{ text: a }], when: {} }]')).toThrow(/turns\.0\.when: needs one of/)
    expect(load('turns: [{ steps: [{ fault: nope }] }]')).toThrow(/turns\.0\.steps\.0/)
    expect(load('turns: [')).toThrow(/scenario\.yaml: /)
    expect(load(`# ${'x'.repeat(1024 * 1024)}\nturns: []`)).toThrow(/larger than/)
    expect(() => loadScenario(join(folder, 'none.yaml'))).toThrow(/none\.yaml: ENOENT/)
    expect(() => simulated({ tokensPerSecond: -1 })).toThrow(/Simulated engine: tokensPerSecond/)
  })
  it('is documented with an example that loads, and every step and fault by its name', () => {
    const doc = readFileSync(new URL('../../docs/engines.md', import.meta.url), 'utf8')
    const examples = [...doc.matchAll(/```yaml\n(# scenario[^]*?)```/g)].map(([, text]) => text ?? '')
    expect(examples.length).toBeGreaterThan(0)
    for (const text of examples)
      expect(() => loadScenario(parse(text) as Parameters<typeof loadScenario>[0])).not.toThrow()
    for (const name of [
      'tokens',
      'reasoning',
      'refusal',
      'json',
      'pause',
      'finish',
      'usage',
      'usage-negative',
      'no-end',
      'vanish',
      'endless',
      'faultMarkers',
    ])
      expect(doc).toContain(`\`${name}`)
  })
})
