import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { simulated } from '../../src/engines/simulated.ts'
import type { Item } from '../../src/protocol/items.ts'
import type { Settings } from '../../src/protocol/request.ts'
import { answeredCall } from '../../src/protocol/items.ts'
import { Chain } from '../../src/turn/chain.ts'
import type { Engine } from '../../src/turn/ports.ts'
import { weigh, weighText } from '../../src/turn/weigh.ts'
import {
  assistant,
  callTo,
  chainOf,
  codeOf,
  customTool,
  itemsOf,
  output,
  read,
  settings,
  tool,
  user,
} from './simulated-generations.ts'

const execCommand = tool(
  'exec_command',
  { cmd: { type: 'string' }, workdir: { type: 'string' }, tty: { type: 'boolean' } },
  ['cmd'],
)
const weather = tool('get_weather', { city: { type: 'string' } })

/** Runs a tool loop as an agent would, and returns what was called in each round, and the text at the end. */
async function loop(engine: Engine, some: Partial<Settings>, first: Item[] = [user('look around')]) {
  const rounds: { name: string; input: string; namespace: string | undefined }[][] = []
  let chain = chainOf(first)
  for (let n = 0; n < 20; n++) {
    const { calls, deltas, text, error } = await read(engine, callTo(chain, some))
    expect(error).toBeUndefined()
    if (calls.length === 0) return { rounds, text }
    rounds.push(calls.map(({ name, input, namespace }) => ({ name, input, namespace })))
    const made = itemsOf(deltas, `i${n}_`)
    chain = chain.add({ response: `r${n}`, from: 'model', items: made })
    const answers = made.flatMap((i) =>
      'call_id' in i && typeof i.call_id === 'string' ? [output(i.call_id, `result ${n}`)] : [],
    )
    chain = chain.add({ response: `r${n}`, from: 'input', items: answers })
  }
  throw new Error('no end')
}

describe('the simulated model in a tool loop', () => {
  it('runs three different commands with a shell tool, then answers with what came back', async () => {
    const { rounds, text } = await loop(simulated(), { tools: [weather, execCommand, tool('write_stdin')] })
    expect(rounds.map((r) => r.map((c) => [c.name, JSON.parse(c.input)]))).toEqual([
      [['exec_command', { cmd: 'ls' }]],
      [['exec_command', { cmd: 'ls -la' }]],
      [['exec_command', { cmd: 'pwd' }]],
    ])
    expect(text).toContain('3 tool rounds')
    expect(text).toContain('result 2')
  })
  it('fills a shell tool by its schema, whatever name and shape the client gave it', async () => {
    const list = { type: 'array', items: { type: 'string' } }
    const cases: [ReturnType<typeof tool>, unknown][] = [
      [tool('shell', { command: list }), { command: ['ls'] }],
      [tool('shell', { command: list, workdir: { type: ['string', 'null'] } }), { command: ['ls'], workdir: null }],
      [
        tool('bash', { command: { type: 'string' }, description: { type: 'string' } }),
        { command: 'ls', description: 'Look at the folder' },
      ],
      [
        tool('execute_command', { command: { type: 'string' }, requires_approval: { type: 'boolean' } }),
        { command: 'ls', requires_approval: true },
      ],
      [tool('terminal', { command: { anyOf: [list, { type: 'string' }] } }), { command: 'ls' }],
      [tool('run_command', { cmd: { type: 'string' } }, []), { cmd: 'ls' }],
      [tool('bash', { command: { enum: ['status', 'stop'] } }), { command: 'status' }],
    ]
    for (const [t, expected] of cases) {
      const { calls } = await read(simulated(), callTo(chainOf([user('go')]), { tools: [t] }))
      expect(calls.map((c) => JSON.parse(c.input) as unknown)).toEqual([expected])
    }
  })
  it('takes tools from the conversation, and names the namespace of a custom tool in one', async () => {
    const brought: Item = {
      type: 'additional_tools',
      role: 'developer',
      tools: [
        {
          type: 'namespace',
          name: 'functions',
          description: '',
          tools: [{ type: 'custom', name: 'exec' }, tool('wait')] as never,
        },
      ],
    }
    const { rounds } = await loop(simulated(), { parallel_tool_calls: false }, [brought, user('go')])
    expect(rounds[0]).toEqual([{ name: 'exec', namespace: 'functions', input: 'ls' }])
    expect(rounds).toHaveLength(3)
  })
  it('uses a tool that gets, lists, reads or searches where there is no shell, with valid arguments', async () => {
    const { rounds, text } = await loop(simulated({ rounds: 2 }), {
      tools: [tool('send_mail', { to: { type: 'string' } }), weather],
    })
    expect(rounds).toEqual([
      [{ name: 'get_weather', namespace: undefined, input: '{"city":"Berlin"}' }],
      [{ name: 'get_weather', namespace: undefined, input: '{"city":"Berlin"}' }],
    ])
    expect(text).toContain('2 tool rounds')
  })
  it('answers at once where no tool is one to look around with, or none may be used', async () => {
    const grammar = customTool('apply_patch', {
      type: 'grammar',
      syntax: 'lark',
      definition: 'start: "*** Begin Patch"',
    })
    for (const some of [
      {},
      { tools: [tool('send_mail'), grammar] },
      { tools: [execCommand], tool_choice: 'none' as const },
    ]) {
      const { rounds, text } = await loop(simulated(), some)
      expect(rounds).toEqual([])
      expect(text).toContain('look around')
    }
  })
  it('calls what it is forced to once, also with no rounds at all, then answers', async () => {
    const tools = [weather, tool('send_mail', { to: { type: 'string', format: 'email' } }), customTool('note')]
    const forced = async (tool_choice: Settings['tool_choice']) =>
      (await loop(simulated({ rounds: 0 }), { tools, tool_choice })).rounds.map((r) => r.map((c) => c.name))
    expect(await forced('required')).toEqual([['get_weather']])
    expect(await forced({ type: 'function', name: 'send_mail' })).toEqual([['send_mail']])
    expect(await forced({ type: 'custom', name: 'note' })).toEqual([['note']])
    expect(
      await forced({ type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'send_mail' }] }),
    ).toEqual([['send_mail']])
  })
  it('starts a new loop when the user speaks again, not when tools do', async () => {
    const said = [
      user('one'),
      { type: 'function_call', call_id: 'a', name: 'get_weather', arguments: '{}' } as Item,
      output('a', 'sunny'),
    ]
    const some = { tools: [weather] }
    expect((await read(simulated({ rounds: 1 }), callTo(chainOf(said), some))).calls).toEqual([])
    expect(
      (await read(simulated({ rounds: 1 }), callTo(chainOf([...said, assistant('x'), user('two')]), some))).calls,
    ).toHaveLength(1)
    expect(
      (await read(simulated({ rounds: 2 }), callTo(chainOf([...said, output('b', 'parallel')]), some))).calls,
    ).toHaveLength(1)
  })
  it('writes what a forced tool with a grammar can read', async () => {
    const patch = customTool('apply_patch', {
      type: 'grammar',
      syntax: 'lark',
      definition: 'start: begin\nbegin: "*** Begin Patch" LF',
    })
    const regex = customTool('date', { type: 'grammar', syntax: 'regex', definition: '^\\d{4}-\\d{2}$' })
    const forced = async (t: typeof patch) =>
      (await read(simulated(), callTo(chainOf([user('x')]), { tools: [t], tool_choice: 'required' }))).calls[0]?.input
    expect(await forced(patch)).toMatch(/^\*\*\* Begin Patch\n[^]*\n\*\*\* End Patch\n$/)
    expect(await forced(regex)).toMatch(/^\d{4}-\d{2}$/)
  })
  it('is refused a choice of a tool that is not offered', () => {
    const engine = simulated()
    const admit = (some: Partial<Settings>, chain = chainOf([user('x')])) => {
      try {
        engine.admit(settings(some), chain)
        return 'admitted'
      } catch (e) {
        return [codeOf(e), (e as { param?: string }).param]
      }
    }
    const refused = ['invalid_request', 'tool_choice']
    expect(admit({ tools: [weather], tool_choice: { type: 'function', name: 'nope' } })).toEqual(refused)
    expect(admit({ tools: [weather], tool_choice: { type: 'custom', name: 'get_weather' } })).toEqual(refused)
    expect(admit({ tool_choice: 'required' })).toEqual(refused)
    expect(admit({ tools: [weather], tool_choice: { type: 'function', name: 'get_weather' } })).toBe('admitted')
    expect(
      admit({ tool_choice: 'required' }, chainOf([{ type: 'additional_tools', role: 'developer', tools: [weather] }])),
    ).toBe('admitted')
  })
})

describe('what the simulated model writes', () => {
  it('is JSON that fits the schema of text.format, or any object for json_object', async () => {
    const schema = {
      type: 'object',
      properties: { a: { type: 'string' }, n: { type: 'array', items: { type: 'integer', minimum: 5 }, minItems: 2 } },
      required: ['a', 'n'],
      additionalProperties: false,
    }
    const { text } = await read(
      simulated(),
      callTo(chainOf([user('x')]), { text: { format: { type: 'json_schema', name: 'x', schema } } }),
    )
    expect(new Ajv2020().compile(schema)(JSON.parse(text))).toBe(true)
    const any = await read(simulated(), callTo(chainOf([user('x')]), { text: { format: { type: 'json_object' } } }))
    expect(JSON.parse(any.text)).toHaveProperty('answer')
  })
  it('is the same for the same conversation, whatever the settings of sampling and the pieces of a chunk', async () => {
    const chain = chainOf([user('hello 🌊 world')])
    const one = await read(simulated(), callTo(chain))
    const two = await read(simulated({ batch: 7 }), callTo(chain, { temperature: 2, top_p: 0.1 }))
    expect(two.text).toBe(one.text)
    expect(two.usage).toEqual(one.usage)
    expect(one.text).toContain('hello 🌊 world')
  })
  it('never repeats more than 200 characters of what it was told', async () => {
    const long = '€'.repeat(5000)
    for (const chain of [chainOf([user(long)]), chainOf([user('x'), output('a', long)])]) {
      const { text } = await read(simulated(), callTo(chain))
      expect(text.split('€').length - 1).toBeLessThanOrEqual(200)
    }
  })
  it('stops at max_output_tokens, in the middle of an item, and says so', async () => {
    const whole = await read(simulated(), callTo(chainOf([user('x')])))
    const count = whole.usage?.output ?? 0
    expect(whole.finish).toBe('stop')
    expect(whole.deltas.filter((d) => d.type === 'text')).toHaveLength(count)
    for (const max of [1, 5, count - 1]) {
      const cut = await read(simulated(), callTo(chainOf([user('x')]), { max_output_tokens: max }))
      expect([cut.finish, cut.usage?.output, cut.deltas.at(-1)]).toEqual(['length', max, { type: 'end', whole: false }])
      expect(whole.text.startsWith(cut.text)).toBe(true)
    }
    expect((await read(simulated(), callTo(chainOf([user('x')]), { max_output_tokens: count }))).finish).toBe('stop')
    const call = await read(simulated(), callTo(chainOf([user('x')]), { max_output_tokens: 2, tools: [weather] }))
    expect([call.finish, call.deltas.at(-1)]).toEqual(['length', { type: 'end', whole: false }])
  })
  it('begins with reasoning if told to, which counts as output, and not at effort none', async () => {
    const { deltas, usage } = await read(simulated({ reasoning: true }), callTo(chainOf([user('x')])))
    expect(deltas[0]?.type).toBe('reasoning')
    expect(usage?.reasoning).toBe(deltas.filter((d) => d.type === 'reasoning').length)
    const none = await read(
      simulated({ reasoning: true }),
      callTo(chainOf([user('x')]), { reasoning: { effort: 'none' } }),
    )
    expect(none.deltas[0]?.type).toBe('text')
  })
  it('has no more tokens than the context holds, prompt included', async () => {
    const chain = chainOf([user('x'.repeat(400))])
    const engine = simulated({ context: 110 })
    const { finish, usage } = await read(engine, callTo(chain))
    expect(finish).toBe('length')
    expect((usage?.input ?? 0) + (usage?.output ?? 0)).toBe(110)
    const small = simulated({ context: 50 })
    expect(codeOf((await read(small, callTo(chain))).error)).toBe('context_length_exceeded')
    expect(() => small.admit(settings(), chain)).toThrow(/50/)
  })
})

const itemArb: fc.Arbitrary<Item> = fc.oneof(
  fc.string({ unit: 'binary' }).map(user),
  fc.string().map(assistant),
  fc.tuple(fc.nat(5), fc.string()).map(([n, text]): Item => ({
    type: 'function_call',
    id: `fc_${n}`,
    call_id: `c${n}`,
    name: 'get_weather',
    arguments: text,
  })),
  fc.tuple(fc.nat(5), fc.string()).map(([n, text]) => output(`c${n}`, text)),
  fc.string().map((text): Item => ({ type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text }] })),
)
const conversation = fc.array(itemArb, { maxLength: 12 })
const cuts = fc.array(fc.nat(12), { maxLength: 4 })
const cutAt = (items: readonly Item[], at: readonly number[]): Chain => {
  const places = [0, ...at.filter((n) => n < items.length).sort((a, b) => a - b), items.length]
  return chainOf(...places.slice(1).map((end, n) => items.slice(places[n], end)))
}

describe('what the simulated model sees', () => {
  it('is the same prompt whether items come as deltas or in full, and so is what it writes', async () => {
    await fc.assert(
      fc.asyncProperty(conversation, cuts, async (items, at) => {
        const engine = simulated({ record: true })
        const some = { instructions: 'be kind', tools: [weather] }
        const changed = items.map((i) => ({ ...i, id: 'other', status: 'completed' }) as Item)
        const full = await read(engine, callTo(chainOf(items), some))
        const cut = await read(engine, callTo(cutAt(changed, at), some))
        expect(engine.got[1]?.prompt).toBe(engine.got[0]?.prompt)
        expect(cut.deltas).toEqual(full.deltas)
        // The second time all of it was in the cache.
        expect(cut.usage).toEqual({ ...full.usage, cached: full.usage?.input })
      }),
      { numRuns: 150 },
    )
  })
  it('is told by the record: instructions, tools, roles, texts, calls and what answers them, nothing else', async () => {
    const engine = simulated({ record: true })
    const image: Item = {
      type: 'message',
      id: 'msg_1',
      role: 'user',
      content: [
        { type: 'input_text', text: 'see ' },
        { type: 'input_image', image_url: 'data:image/png;base64,AAAA' },
      ],
    }
    const call: Item = {
      type: 'function_call',
      id: 'fc_1',
      call_id: 'call_77',
      name: 'f',
      namespace: 'ns',
      arguments: '{"a":1}',
      status: 'completed',
    }
    await read(
      engine,
      callTo(
        chainOf(
          [image],
          [call, { type: 'custom_tool_call', call_id: 'call_78', name: 'g', input: 'raw' }],
          [output('call_78', 'two'), output('call_77', 'one'), output('x', 'lost')],
        ),
        { instructions: 'be kind', tools: [weather] },
        { id: 'resp_9' },
      ),
    )
    const [got] = engine.got
    expect(got?.id).toBe('resp_9')
    expect(got?.tools).toEqual(['get_weather'])
    expect(got?.prompt.split('\n')).toEqual([
      'instructions: be kind',
      expect.stringMatching(/^tool: \{.*"name":"get_weather".*\}$/),
      expect.stringMatching(/^user: see \[image [0-9a-f]{40}\]$/),
      'call 1: ns.f({"a":1})',
      'call 2: g raw',
      'output 2: two',
      'output 1: one',
      'output ?: lost',
      '',
    ])
    expect(got?.prompt).not.toMatch(/call_77|fc_1|completed/)
  })
  it('is recorded only if asked for, and only the last thousand times', async () => {
    const engine = simulated({ record: true })
    for (let n = 0; n < 1003; n++)
      await read(engine, callTo(chainOf([user(`n${n}`)]), {}, { id: `r${n}`, generate: false }))
    expect([engine.got.length, engine.got[0]?.id, engine.calls]).toEqual([1000, 'r3', 1003])
    const silent = simulated()
    await read(silent, callTo(chainOf([user('x')])))
    expect([silent.got.length, silent.calls]).toEqual([0, 1])
  })
})

describe("the simulated engine's prefix cache", () => {
  const first = [user('x'.repeat(400))]
  const some = { instructions: 'i'.repeat(40), tools: [] }
  const inputOf = (items: readonly Item[]) => weigh(items) + weighText('i'.repeat(40))

  it('knows after a turn its prompt and what was written, so that the next one pays for what is new', async () => {
    const engine = simulated()
    const chain = chainOf(first)
    const one = await read(engine, callTo(chain, some))
    expect(one.usage).toMatchObject({ input: inputOf(first), cached: 0 })
    const made = itemsOf(one.deltas, 'm')
    const delta = chain
      .add({ response: 'r', from: 'model', items: made })
      .add({ response: 'r2', from: 'input', items: [user('more')] })
    const two = await read(engine, callTo(delta, some))
    expect(two.usage).toMatchObject({
      input: inputOf([...first, ...made, user('more')]),
      cached: inputOf([...first, ...made]),
    })
    const resent = await read(engine, callTo(chainOf([...first, ...made, user('other')]), some))
    expect(resent.usage?.cached).toBe(inputOf([...first, ...made]))
  })
  it('knows the calls it made, whatever ids they were given', async () => {
    const engine = simulated({ reasoning: true })
    const tools = [weather]
    const one = await read(engine, callTo(chainOf(first), { tools }))
    const made = itemsOf(one.deltas, 'm')
    expect(made.map((i) => i.type)).toEqual(['reasoning', 'function_call'])
    const id = made.flatMap((i) => (i.type === 'function_call' ? [i.call_id] : []))[0] ?? ''
    const two = await read(engine, callTo(chainOf(first, made, [output(id, 'sunny')]), { tools }))
    expect((two.usage?.input ?? 0) - (two.usage?.cached ?? 0)).toBe(weigh([output(id, 'sunny')]))
  })
  it('is filled by a warm-up, which writes nothing', async () => {
    const engine = simulated()
    const warm = await read(engine, callTo(chainOf(first), some, { generate: false }))
    expect([warm.deltas, warm.finish, warm.usage]).toEqual([
      [],
      'stop',
      { input: inputOf(first), cached: 0, output: 0, reasoning: 0 },
    ])
    expect((await read(engine, callTo(chainOf(first, [user('x')]), some))).usage?.cached).toBe(inputOf(first))
  })
  it('is of no use to other instructions, other tools, or another owner', async () => {
    const engine = simulated()
    await read(engine, callTo(chainOf(first), some))
    const cached = async (call: ReturnType<typeof callTo>) => (await read(engine, call)).usage?.cached
    expect(await cached(callTo(chainOf(first), { instructions: 'other' }))).toBe(0)
    expect(await cached(callTo(chainOf(first), { ...some, tools: [weather] }))).toBe(0)
    const foreign = Chain.root('local/other').add({ response: 'r', from: 'input', items: first })
    expect(await cached(callTo(foreign, some))).toBe(0)
    expect(await cached(callTo(chainOf(first), some))).toBe(inputOf(first))
  })
  it('forgets what was not used for longest', async () => {
    const engine = simulated({ cacheItems: 4 })
    for (const text of ['a', 'b', 'c']) await read(engine, callTo(chainOf([user(text)]), {}, { generate: false }))
    await read(engine, callTo(chainOf([user('a')]), {}, { generate: false }))
    for (const text of ['d', 'e']) await read(engine, callTo(chainOf([user(text)]), {}, { generate: false }))
    const cached = async (text: string) =>
      (await read(engine, callTo(chainOf([user(text)]), {}, { generate: false }))).usage?.cached
    expect(await cached('a')).toBeGreaterThan(0)
    expect(await cached('b')).toBe(0)
  })
})

describe('time in the simulated engine', () => {
  afterEach(() => void vi.useRealTimers())
  const fake = () => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'performance'] })
  const filler = { turns: [{ steps: [{ tokens: 100_000 }] }] }

  it('passes as tokens at the rate that was asked for, several a tick', async () => {
    fake()
    for (const rate of [65, 1000, 4000]) {
      let tokens = 0
      const stop = new AbortController()
      const done = read(
        simulated({ tokensPerSecond: rate, scenario: filler }),
        callTo(chainOf([user('x')]), {}, { signal: stop.signal }),
        (c) => {
          tokens += c.deltas?.length ?? 0
        },
      )
      await vi.advanceTimersByTimeAsync(2000)
      expect(tokens).toBeGreaterThan(rate * 2 * 0.98 - 2)
      expect(tokens).toBeLessThan(rate * 2 * 1.01 + 2)
      stop.abort(new Error('enough'))
      await done
    }
  })
  it('passes before the first token: a fixed part, and the prompt that is not cached', async () => {
    fake()
    const engine = simulated({ ttftMs: 100, prefillTokensPerSecond: 1000 })
    const chain = chainOf([user('x'.repeat(4000 - 16))])
    let chunks = 0
    const done = read(engine, callTo(chain), () => void chunks++)
    await vi.advanceTimersByTimeAsync(1090)
    expect(chunks).toBe(0)
    await vi.advanceTimersByTimeAsync(15)
    expect(chunks).toBeGreaterThan(0)
    await done
    chunks = 0
    const again = read(engine, callTo(chain), () => void chunks++)
    await vi.advanceTimersByTimeAsync(99)
    expect(chunks).toBe(0)
    await vi.advanceTimersByTimeAsync(2)
    expect(chunks).toBeGreaterThan(0)
    await again
  })
  it('leaves room for others: 100,000 tokens at full speed do not hold up the event loop', async () => {
    let turns = 0
    let over = false
    const tick = (): void => {
      turns++
      if (!over) setImmediate(tick)
    }
    setImmediate(tick)
    const { usage, deltas, error } = await read(simulated({ scenario: filler }), callTo(chainOf([user('x')])))
    over = true
    expect(error).toBeUndefined()
    expect(usage?.output).toBe(100_000)
    expect(deltas).toHaveLength(100_001)
    expect(turns).toBeGreaterThan(100)
  })
  it('stands still while nobody reads', async () => {
    const engine = simulated({ scenario: filler })
    const reading = engine.generate(callTo(chainOf([user('x')])))[Symbol.asyncIterator]()
    let seen = 0
    const take = async () => {
      const { value } = await reading.next()
      return (value as { deltas?: unknown[] } | undefined)?.deltas?.length ?? 0
    }
    for (let n = 0; n < 5; n++) {
      seen += await take()
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    expect(seen).toBeLessThanOrEqual(5 * 64)
    await reading.return?.()
    await new Promise((resolve) => setImmediate(resolve))
    expect([engine.running, engine.aborted]).toEqual([0, 1])
  })
})

describe('stopping the simulated engine', () => {
  const busy = {
    'before the first token': { ttftMs: 3_600_000 },
    'during prefill': { prefillTokensPerSecond: 0.001 },
    'between tokens': { tokensPerSecond: 0.001 },
    'in a pause': { scenario: { turns: [{ steps: [{ text: 'a' }, { pause: 3_600_000 }] }] } },
    'in a hang': { faults: [{ kind: 'hang' as const, after: 0 }] },
    'in an endless answer': { faults: [{ kind: 'endless' as const }] },
  }
  for (const [when, options] of Object.entries(busy))
    it(`ends at once on abort ${when}, with its reason`, async () => {
      const engine = simulated(options)
      const stop = new AbortController()
      const done = read(engine, callTo(chainOf([user('x')]), {}, { signal: stop.signal }))
      await new Promise((resolve) => setTimeout(resolve, 5))
      expect(engine.running).toBe(1)
      const reason = new Error('enough')
      stop.abort(reason)
      expect((await done).error).toBe(reason)
      await new Promise((resolve) => setImmediate(resolve))
      expect([engine.running, engine.aborted]).toEqual([0, 1])
    })
  it('happens when the reader goes, too', async () => {
    const engine = simulated({ faults: [{ kind: 'endless' }] })
    let read = 0
    for await (const chunk of engine.generate(callTo(chainOf([user('x')])))) {
      read += chunk.deltas?.length ?? 0
      if (read > 1000) break
    }
    await new Promise((resolve) => setImmediate(resolve))
    await new Promise((resolve) => setImmediate(resolve))
    expect([engine.running, engine.aborted]).toEqual([0, 1])
  })
  it('before the first read costs nothing', async () => {
    const engine = simulated()
    const stop = new AbortController()
    stop.abort(new Error('early'))
    expect(String((await read(engine, callTo(chainOf([user('x')]), {}, { signal: stop.signal }))).error)).toContain(
      'early',
    )
    expect([engine.calls, engine.running]).toEqual([0, 0])
  })
  it('happens to all that runs when the engine is closed', async () => {
    const engine = simulated({ ttftMs: 3_600_000 })
    const done = read(engine, callTo(chainOf([user('x')])))
    await engine.close()
    expect(codeOf((await done).error)).toBe('server_error')
    expect(await engine.probe(new AbortController().signal)).toEqual(['simulated'])
  })
})

describe('any generation of the simulated engine', () => {
  it('is a row of whole items, as many pieces as its usage says, for any conversation and options', async () => {
    const some = fc.record({
      tools: fc.subarray([weather, execCommand, tool('send_mail'), customTool('bash')]),
      tool_choice: fc.constantFrom('auto' as const, 'none' as const),
      max_output_tokens: fc.option(fc.integer({ min: 1, max: 60 })),
    })
    const options = fc.record({ rounds: fc.nat(3), batch: fc.integer({ min: 1, max: 9 }), reasoning: fc.boolean() })
    await fc.assert(
      fc.asyncProperty(conversation, some, options, async (items, s, o) => {
        const { deltas, finish, usage, error } = await read(simulated({ ...o, batch: 1 }), callTo(chainOf(items), s))
        expect(error).toBeUndefined()
        let open = false
        for (const d of deltas) {
          if (d.type === 'call') expect(open).toBe(false)
          open = d.type !== 'end'
          if (d.type === 'end' && !d.whole) expect(finish).toBe('length')
        }
        expect(open).toBe(false)
        expect(deltas.filter((d) => d.type !== 'end' && d.type !== 'call')).toHaveLength(usage?.output ?? -1)
        expect(usage?.output).toBeLessThanOrEqual(s.max_output_tokens ?? Infinity)
        const batched = await read(simulated(o), callTo(chainOf(items), s))
        expect([batched.text, batched.calls, batched.usage]).toEqual([
          deltas.map((d) => (d.type === 'text' ? d.text : '')).join(''),
          (await read(simulated({ ...o, batch: 1 }), callTo(chainOf(items), s))).calls,
          usage,
        ])
        if (items.every((i) => answeredCall(i) === undefined) && s.tool_choice === 'none')
          expect(batched.calls).toEqual([])
      }),
      { numRuns: 150 },
    )
  })
})
