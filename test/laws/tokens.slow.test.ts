// Law 6 for engines that take tokens: whether a conversation is sent as deltas or in full, the engine gets the same ids.
// And what the product promises of them: a turn costs what is new in it, whoever resends whatever.
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import type { SimulatedProbe } from '../../src/engines/simulated.ts'
import { rows } from '../codecs/families.ts'
import { smallBpe, smallBpeJson } from '../codecs/talks.ts'
import type { Tokenizer } from '../../src/turn/ports.ts'
import { eventually, startTestServer, type TestServer } from '../wire/server.ts'
import type { WireResponse } from '../wire/socket.ts'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { conversations, hold, roll, type Said, settled, type Step, tools, turnsOf } from './conversations.ts'

const numRuns = Number(process.env['RUNS'] ?? 20)
const folder = mkdtempSync(join(tmpdir(), 'continuo-tokens-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A server whose simulated engine takes tokens of this format and says these things, one a turn. */
async function speaking(
  codec: string,
  said: readonly Said[],
  keepBytes?: number,
): Promise<TestServer & { probe: SimulatedProbe }> {
  const turns = turnsOf(said)
  const server = await startTestServer({
    engines: { sim: { type: 'simulated', tokens: true, record: true, scenario: { by: 'requests', turns } } },
    models: { '*': { engine: 'sim', codec, tokenizer: vocabularyOf(codec) } },
    rollouts: { enabled: true },
    ...(keepBytes === undefined ? {} : { limits: { prefixes: { keepBytes } } }),
  })
  return Object.assign(server, { probe: server.app.models.engines.get('sim') as unknown as SimulatedProbe })
}
const written = new Map<string, string>()
function vocabularyOf(codec: string): string {
  const known = written.get(codec)
  if (known) return known
  const family = rows.find((row) => row.family.name === codec)?.family
  if (!family) throw new Error(`no family ${codec}`)
  const path = join(folder, `${codec}.json`)
  writeFileSync(path, JSON.stringify(smallBpeJson(family)))
  written.set(codec, path)
  return path
}
function smallBpeOf(codec: string): Tokenizer {
  const family = rows.find((row) => row.family.name === codec)?.family
  if (!family) throw new Error(`no family ${codec}`)
  return smallBpe(family)
}
const names = [...new Set(rows.map((row) => row.family.name))]

/** What the engine got, turn by turn, with the conversation held this way. */
async function heldWith(
  codec: string,
  steps: readonly Step[],
  how: 'delta' | 'full' | 'rollout',
  keepBytes?: number,
): Promise<(readonly number[] | undefined)[]> {
  const server = await speaking(
    codec,
    steps.map((s) => s.said),
    keepBytes,
  )
  try {
    const socket = await server.socket()
    await (how === 'rollout' ? roll(socket, steps) : hold(socket, steps, how))
    await socket.close()
    return server.probe.got.map((g) => g.ids)
  } finally {
    await server.close()
  }
}

/**
 * History in these formats has other words than the model itself writes: recipients in another place, calls one a message,
 * reasoning that the template leaves out. There what clients said is looked for.
 */
const writesOtherwise = new Set(['gpt-oss', 'llama3', 'deepseek-v3.1', 'deepseek-v3.2'])

describe.each(names)('%s', (codec) => {
  const runs = { numRuns: Math.max(1, Math.ceil((numRuns * 2) / names.length)) }
  test('law 6: the engine gets the same ids for deltas and for full histories', async () => {
    await fc.assert(
      fc.asyncProperty(conversations, async (steps) => {
        const delta = await heldWith(codec, steps, 'delta')
        expect(delta).toHaveLength(steps.length)
        expect(await heldWith(codec, steps, 'full')).toEqual(delta)
      }),
      runs,
    )
  }, 120_000)
  test('law 6: the engine gets the same ids in rollouts and in single responses', async () => {
    await fc.assert(
      fc.asyncProperty(conversations, async (held) => {
        const steps = settled(held)
        expect(await heldWith(codec, steps, 'rollout')).toEqual(await heldWith(codec, steps, 'delta'))
      }),
      runs,
    )
  }, 120_000)
  // Inside what the model wrote itself the canonical form may have other markers and line breaks than it chose.
  test('law 6: without an index it gets the same words', async () => {
    const tokenizer = smallBpeOf(codec)
    const words = (prompts: readonly (readonly number[] | undefined)[]): string[] =>
      prompts.map((ids) =>
        tokenizer.decode((ids ?? []).filter((id) => tokenizer.nameOf(id) === undefined)).replaceAll(/\s/g, ''),
      )
    await fc.assert(
      fc.asyncProperty(conversations, async (steps) => {
        const [full, delta] = [
          words(await heldWith(codec, steps, 'full', 0)),
          words(await heldWith(codec, steps, 'delta', 0)),
        ]
        if (!writesOtherwise.has(codec)) expect(full).toEqual(delta)
        for (const [n, prompt] of full.entries())
          for (const { user, output, instructions } of steps.slice(0, n + 1))
            for (const text of [user, output, instructions]) {
              if (steps.some((step) => step.said.reasoning?.includes(text.trim()))) continue
              const said = text.replaceAll(/\s/g, '')
              expect(prompt.includes(said)).toBe(delta[n]?.includes(said))
            }
      }),
      runs,
    )
  }, 120_000)
  test('law 6: a history that was edited is rendered from the edit on, and nothing of the old one is left', async () => {
    const edit = fc.record({ at: fc.nat(20), how: fc.constantFrom('text' as const, 'drop' as const) })
    await fc.assert(
      fc.asyncProperty(conversations, fc.array(edit, { minLength: 1, maxLength: 3 }), async (steps, edits) => {
        const server = await speaking(
          codec,
          [...steps, ...edits].map((s) => ('said' in s ? s.said : { reasoning: undefined, text: 'ok', calls: [] })),
        )
        try {
          const history = await hold(await server.socket(), steps, 'full')
          for (const [n, { at, how }] of edits.entries()) {
            const place = at % Math.max(1, history.length)
            const secret = `edited ${n}`
            const words = { type: 'message', role: 'user', content: secret }
            history.splice(place, how === 'drop' ? 2 : 1, ...(how === 'drop' ? [] : [words]))
            if (!history.some((item) => item.role === 'user'))
              history.push({ type: 'message', role: 'user', content: 'on' })
            const { json } = await server
              .http()
              .post('/v1/responses', { model: 'm', store: false, tools, input: history })
            expect((json as WireResponse).status).toBe('completed')
            const ids = server.probe.got.at(-1)?.ids ?? []
            if (how === 'text') expect(smallBpeOf(codec).decode(ids)).toContain(secret)
          }
          // The server renders every prompt anew as well, and compares: see the shadow check in wire/server.ts.
          await eventually(() => expect(server.app.counts().shadowChecks).toBeGreaterThan(0))
        } finally {
          await server.close()
        }
      }),
      runs,
    )
  }, 120_000)
})
