import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { truncateSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, describe, expect, vi } from 'vitest'
import { ApiError } from '../../src/protocol/errors.ts'
import { writeTinyGguf } from '../../src/bench/tiny-gguf.ts'
import { codeOf } from './simulated-generations.ts'
import {
  callOf,
  embedded,
  idsOf,
  imEnd,
  llama,
  modules,
  tinyModel,
  tokenizer,
  turn,
  type Told,
  user,
} from './llama-embedded-turns.ts'

// Each process takes seconds to come up, and far more of them on a busy machine.
vi.setConfig({ testTimeout: 90_000 })
const soon = (): AbortSignal => AbortSignal.timeout(60_000)
const lives = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
async function gone(pid: number): Promise<boolean> {
  for (let n = 0; n < 100 && lives(pid); n++) await sleep(50)
  return !lives(pid)
}
/** What the model answers to these, greedily, has no end. */
const endless = ['slowly', 'a', '1', 'zz']
/** Six turns of one conversation, each on top of all before it. */
const asked = ['hello', 'and then?', 'ä 🙂 日本', 'x'.repeat(700), 'why', 'good bye']

describe('a conversation', () => {
  const engine = embedded()
  const fresh = embedded({ sequences: 1 })
  afterAll(() => Promise.all([engine.close(), fresh.close()]))

  llama('that is continued says what one that is computed anew says, and computes only what is new', async () => {
    let ids: number[] = []
    let before: Told | undefined
    for (const text of asked) {
      const prompt = [...ids, ...(before ? [imEnd, ...idsOf('\n')] : []), ...user(text)]
      const told = await turn(engine, { ids: prompt, warm: before?.warm })
      expect(told.error).toBeUndefined()
      // The last id of an answer is sampled and not computed: it is new in the turn behind it.
      const cached = before ? ids.length - 1 : 0
      expect(told.usage).toEqual({ input: prompt.length, cached, output: told.tokens.length, reasoning: 0 })

      await turn(fresh, { ids: [0, 0], generate: false })
      const anew = await turn(fresh, { ids: prompt })
      expect(anew.usage?.cached).toBe(0)
      expect(told.tokens).toEqual(anew.tokens)
      const { sequences } = await engine.held()
      ids = [...prompt, ...told.tokens]
      expect([...(sequences[0] ?? [])]).toEqual(ids.slice(0, -1))
      before = told
    }
  })
  llama('that goes back is cut at the first id that differs, and its forks get sequences of their own', async () => {
    const stem = user('a stem that is long enough to be told from others')
    const one = await turn(engine, { ids: stem })
    const back = [...stem.slice(0, -12), ...user('another end')]
    const two = await turn(engine, { ids: back, warm: one.warm })
    expect(two.usage?.cached).toBe(stem.length - 12 + common(back.slice(stem.length - 12), stem.slice(-12)))
    const { sequences } = await engine.held()
    expect(sequences.filter((s) => s.length > 0)).toHaveLength(2)

    // The place of `one` is gone: its sequence went on with `two`. There is room, so both go on beside each other.
    const fork = await turn(engine, { ids: [...stem, ...one.tokens, ...user('fork')], warm: one.warm })
    expect(fork.usage?.cached).toBe(0)
    const on = await turn(engine, { ids: [...back, ...two.tokens, 10], warm: two.warm })
    expect(on.usage?.cached).toBe(back.length + two.tokens.length - 1)
    expect((await engine.held()).sequences.filter((s) => s.length > 0)).toHaveLength(3)
    // What resends everything and knows of no place is found by what it begins with.
    const again = await turn(engine, { ids: [...back, ...two.tokens, 10, ...on.tokens, ...user('resent')] })
    expect(again.usage?.cached).toBe(back.length + two.tokens.length + 1 + on.tokens.length - 1)
  })
  llama('is computed in one batch with others, and nobody gets what is another’s', async () => {
    const prompts = ['first of three', 'second of three, somewhat longer', 'third'].map(user)
    const alone: Told[] = []
    for (const ids of prompts) {
      await turn(fresh, { ids: [0, 0], generate: false })
      alone.push(await turn(fresh, { ids }))
    }
    const { mixed } = await engine.held()
    const together = await Promise.all(prompts.map((ids) => turn(engine, { ids })))
    expect(together.map((t) => t.tokens)).toEqual(alone.map((t) => t.tokens))
    expect((await engine.held()).mixed - mixed).toBeGreaterThan(10)
  })
  llama('is warmed up without a word of output, and its first turn then computes one id', async () => {
    const ids = user('warm up')
    const warmed = await turn(fresh, { ids, generate: false })
    expect(warmed).toMatchObject({ tokens: [], finish: 'stop', usage: { input: ids.length, output: 0 } })
    const first = await turn(fresh, { ids, warm: warmed.warm })
    expect(first.usage?.cached).toBe(ids.length - 1)
  })
  llama('samples as the request says', async () => {
    const ids = user('sample')
    const greedy = await turn(fresh, { ids })
    expect((await turn(fresh, { ids })).tokens).toEqual(greedy.tokens)
    const said = new Set<string>()
    for (let n = 0; n < 4; n++) said.add((await turn(fresh, { ids, settings: { temperature: null } })).text)
    expect(said.size).toBeGreaterThan(1)
    // At a top_p of next to nothing only the likeliest is left.
    expect((await turn(fresh, { ids, settings: { temperature: 1, top_p: 0 } })).tokens).toEqual(greedy.tokens)
    const varied = await turn(fresh, { ids, settings: { presence_penalty: 2, max_output_tokens: 60 } })
    const plain = await turn(fresh, { ids, settings: { max_output_tokens: 60 } })
    expect(new Set(varied.tokens).size).toBeGreaterThan(new Set(plain.tokens).size)
  })
  llama('stops behind an id that ends its turn, and at its limit', async () => {
    const ids = user('where does it stop')
    const told = await turn(fresh, { ids })
    expect(told.finish).toBe('length')
    const end = told.tokens[9] ?? -1
    const cut = await turn(fresh, { ids, prompt: { stops: [end] } })
    expect(cut.tokens).toEqual(told.tokens.slice(0, told.tokens.indexOf(end) + 1))
    expect(cut.finish).toBe('stop')
    const full = await turn(fresh, {
      ids: [...ids, ...Array(2040 - ids.length).fill(65)],
      settings: { max_output_tokens: null },
    })
    expect(full).toMatchObject({ finish: 'length', usage: { input: 2040, output: 8 } })
  })
  llama('that is too long for the model is refused before anything is computed', async () => {
    const ids = Array<number>(2048).fill(65)
    expect(() => engine.generate(callOf({ ids }))).toThrow('The prompt has 2048 tokens; engine tiny takes 2048')
    expect((await turn(engine, { ids: ids.slice(1) })).usage?.output).toBe(1)
  })
  llama('is told by llama.cpp in the ids of its own tokenizer', async () => {
    const texts = ['hello', ' ä🙂', '<|im_start|>']
    expect(await engine.tokenize?.(texts, soon())).toEqual(texts.map((t) => [...Buffer.from(t)]))
    expect(await engine.probe(soon())).toEqual(['qwen3-1.gguf'])
  })
})

describe('a turn that is given up', () => {
  const engine = embedded({ context: 8192, sequences: 2 })
  afterAll(() => engine.close())

  llama('ends at once while it is computed, and its sequence is free again', async () => {
    const stop = new AbortController()
    const ids = Array.from({ length: 8000 }, (_, n) => 97 + (n % 26))
    await turn(engine, { ids: [1], generate: false })
    const running = turn(engine, { ids, signal: stop.signal })
    while (!(await engine.held()).sequences.some((s) => s.length > 300)) await sleep(1)
    const began = performance.now()
    stop.abort(new ApiError('server_error', 'given up'))
    expect((await running).error).toBe(stop.signal.reason)
    expect(performance.now() - began).toBeLessThan(50)
    const next = await turn(engine, { ids: user('next') })
    expect(next.error).toBeUndefined()
    expect((await engine.held()).sequences.every((s) => s.length < ids.length)).toBe(true)
  })
  llama('ends at once while it writes, and may be tried again where it was', async () => {
    const first = await turn(engine, { ids: user('try') })
    const ids = [...user('try'), ...first.tokens, ...user('again')]
    const stop = new AbortController()
    const cut = await turn(
      engine,
      { ids, warm: first.warm, signal: stop.signal, settings: { max_output_tokens: 4000 } },
      () => stop.abort(new ApiError('server_error', 'given up')),
    )
    expect(cut.error).toBe(stop.signal.reason)
    const again = await turn(engine, { ids, warm: first.warm })
    expect(again.usage?.cached).toBe(ids.length - 1)
    expect(again.finish).toBe('length')
  })
  llama('waits for a reader that is slow', async () => {
    const ids = user('slowly')
    const reader = engine
      .generate(callOf({ ids, settings: { max_output_tokens: 4000 }, prompt: { stops: [] } }))
      [Symbol.asyncIterator]()
    await reader.next()
    const longest = async (): Promise<number> =>
      (await engine.held()).sequences.find((s) => ids.every((id, n) => s[n] === id))?.length ?? 0
    let length = 0
    for (let next = await longest(); next !== length; next = await longest()) {
      length = next
      await sleep(500)
    }
    expect(length).toBeLessThan(3000)
    for (let n = 0; n < 3; n++) await reader.next()
    while ((await longest()) === length) await sleep(20)
    await reader.return?.()
  })
})

describe('sequences', () => {
  const engine = embedded({ sequences: 2, waiting: 1, saveState: false })
  afterAll(() => engine.close())

  llama('are given to others, the one that nobody used for longest first', async () => {
    const [a, b, c] = ['alpha', 'beta', 'gamma'].map((name) => idsOf(`${name} `.repeat(20))) as [
      number[],
      number[],
      number[],
    ]
    const one = await turn(engine, { ids: a })
    const two = await turn(engine, { ids: b })
    const on = await turn(engine, { ids: [...a, ...one.tokens, 10], warm: one.warm })
    expect(on.usage?.cached).toBe(a.length + one.tokens.length - 1)
    expect((await turn(engine, { ids: c })).usage?.cached).toBe(0)
    const { sequences } = await engine.held()
    expect(sequences.map((s) => tokenizer.decode(s).slice(0, 5))).toEqual(['alpha', 'gamma'])
    // The place is somebody else's now, and what stands there is not taken for ours.
    const back = await turn(engine, { ids: [...b, ...two.tokens, 10], warm: two.warm })
    expect(back.usage?.cached).toBe(0)
    expect(back.error).toBeUndefined()
  })
  llama('are waited for, by as many as may wait', async () => {
    const long = { settings: { max_output_tokens: 200 }, prompt: { stops: [] } }
    const all = await Promise.all(endless.map((text) => turn(engine, { ids: user(text), ...long })))
    expect(all.map((t) => codeOf(t.error))).toEqual([undefined, undefined, undefined, 'server_is_overloaded'])
    const free = await turn(engine, { ids: user('free'), ...long })
    expect(free.error).toBeUndefined()
  })
})

describe('the process of llama.cpp', () => {
  llama('may be killed in the middle of turns: they fail, and the next request has a new one', async () => {
    const engine = embedded()
    const long = { settings: { max_output_tokens: 2000 }, prompt: { stops: [] } }
    const before = await turn(engine, { ids: user('before') })
    const { pid } = engine
    let killed = false
    const running = endless.slice(0, 2).map((text) =>
      turn(engine, { ids: user(text), ...long }, () => {
        if (!killed && pid !== undefined) process.kill(pid, 'SIGKILL')
        killed = true
      }),
    )
    for (const told of await Promise.all(running)) {
      expect(codeOf(told.error)).toBe('server_error')
      expect((told.error as Error).message).toContain('its llama.cpp process ended (SIGKILL)')
    }
    const ids = [...user('before'), ...before.tokens]
    const after = await turn(engine, { ids, warm: before.warm })
    expect(after.error).toBeUndefined()
    expect(after.usage?.cached).toBe(0)
    expect(engine.pid).not.toBe(pid)
    const last = engine.pid ?? 0
    await engine.close()
    expect(await gone(last)).toBe(true)
    const closed = await turn(engine, { ids })
    expect((closed.error as Error).message).toContain('was closed')
  })
  llama('that says nothing any more is ended, and its turns with it', async () => {
    const engine = embedded({ idleMs: 1500 })
    await engine.probe(soon())
    const { pid = 0 } = engine
    // Stopped, as one that hangs in native code is.
    process.kill(pid, 'SIGSTOP')
    const told = await turn(engine, { ids: user('hello') })
    expect((told.error as Error).message).toContain('gave no sign of life for 1.5 s')
    expect(await gone(pid)).toBe(true)
    await engine.close()
  })
  llama('ends with its parent, however that ends', async () => {
    const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
    const program = fileURLToPath(new URL('./llama-embedded-parent.ts', import.meta.url))
    const parent = spawn(process.execPath, ['--import', tsx, program, tinyModel(), modules], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let said = ''
    parent.stdout.on('data', (piece) => (said += String(piece)))
    await once(parent, 'close')
    expect(parent.signalCode).toBe('SIGKILL')
    expect(said).toMatch(/^\d+\n$/)
    expect(await gone(Number(said))).toBe(true)
  })
  llama('that does not come up says why, each time it is asked', async () => {
    const broken = writeTinyGguf(tinyModel().replace('.gguf', '-broken.gguf'), { layers: 1 })
    truncateSync(broken, 20_000)
    const engine = embedded({ model: broken })
    for (let n = 0; n < 2; n++) {
      const told = await turn(engine, { ids: user('hello') })
      expect(codeOf(told.error)).toBe('server_error')
      expect((told.error as Error).message).toMatch(/^Engine tiny: llama\.cpp could not load the model: /)
    }
    await engine.close()
  })
})

function common(a: readonly number[], b: readonly number[]): number {
  let n = 0
  while (n < Math.min(a.length, b.length) && a[n] === b[n]) n++
  return n
}
