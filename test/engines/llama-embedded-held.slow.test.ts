// Structured output end to end: a real llama.cpp with a model of random weights behind the HTTP door. Whatever it samples,
// the answer fits what was asked for.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, vi } from 'vitest'
import { startWith } from '../session/started.ts'
import { tinyControls, tinyTokenizer, writeTinyGguf } from '../../src/bench/tiny-gguf.ts'
import type { TestServer } from '../wire/server.ts'
import { llama, modules } from './llama-embedded-turns.ts'

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 })
const folder = mkdtempSync(join(tmpdir(), 'continuo-held-'))
let server: TestServer
beforeAll(async () => {
  if (llama === llama.skip) return
  const tokenizer = tinyTokenizer(tinyControls, false)
  const model = writeTinyGguf(join(folder, 'tiny.gguf'), { tokenizer, layers: 1, width: 32 })
  const engine = { ...{ type: 'llama-embedded', model, modules }, gpu: 'off', threads: 1, context: 4096, sequences: 1 }
  server = await startWith({
    engines: { hold: engine, advise: { ...engine, grammars: 'advise' } },
    models: {
      think: { engine: 'hold', codec: 'qwen3' },
      plain: { engine: 'hold', codec: 'qwen3-instruct' },
      told: { engine: 'advise', codec: 'qwen3-instruct' },
    },
  })
})
afterAll(async () => {
  await server?.close()
  rmSync(folder, { recursive: true, force: true })
})

type Output = { type: string; name?: string; arguments?: string; input?: string; content?: { text: string }[] }
type Answer = { status: number; response: { status: string; output: Output[] }; param: unknown }
async function ask(model: string, some: object): Promise<Answer> {
  const body = { ...{ model, input: 'go', store: false, temperature: 1, max_output_tokens: 3000 }, ...some }
  const answer = await fetch(`${server.url}/v1/responses`, {
    ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
    body: JSON.stringify(body),
  })
  const json = (await answer.json()) as Answer['response'] & { error?: { param?: unknown } }
  return { status: answer.status, response: json, param: json.error?.param }
}
const textOf = ({ response }: Answer): string =>
  response.output
    .filter((item) => item.type === 'message')
    .flatMap((item) => item.content ?? [])
    .map((part) => part.text)
    .join('')
const callsIn = ({ response }: Answer): Output[] => response.output.filter((item) => item.type.endsWith('_call'))

const schema = {
  type: 'object',
  properties: { city: { enum: ['Bonn', '京都'] }, days: { type: 'integer', minimum: 1, maximum: 9 } },
  required: ['city', 'days'],
  additionalProperties: false,
}
const fits = (json: string): void => {
  const { city, days, ...rest } = JSON.parse(json) as Record<string, unknown>
  expect(['Bonn', '京都']).toContain(city)
  expect(days).toSatisfy((n) => Number.isInteger(n) && Number(n) >= 1 && Number(n) <= 9)
  expect(rest).toEqual({})
}
const format = { type: 'json_schema', name: 'trip', schema, strict: true }
const trip = { type: 'function', name: 'trip', parameters: schema, strict: true }
const patch = `start: "*** Begin Patch" LF file+ "*** End Patch" LF?
file: "*** Delete File: " /[a-z]{1,4}/ LF
%import common.LF`
const edit = { ...{ type: 'custom', name: 'edit' }, format: { type: 'grammar', syntax: 'lark', definition: patch } }
const ticket = {
  ...{ type: 'custom', name: 'ticket' },
  format: { type: 'grammar', syntax: 'regex', definition: '[A-Z]{2}-\\d{1,3}' },
}
const quiet = { reasoning: { effort: 'none' } }

describe('whatever a model of random weights samples', () => {
  llama('its answer fits the schema', async () => {
    for (let n = 0; n < 5; n++) {
      const answer = await ask(n % 2 === 0 ? 'plain' : 'think', { text: { format }, ...quiet })
      expect(answer).toMatchObject({ status: 200, response: { status: 'completed' } })
      fits(textOf(answer))
    }
  })
  llama('its answer fits the schema where it may reason first, and need not', async () => {
    for (let n = 0; n < 5; n++) {
      const answer = await ask('think', { text: { format } })
      expect(answer.status).toBe(200)
      const { status, output } = answer.response
      // It may be at its reasoning when the tokens end, and nowhere else.
      if (status === 'completed') fits(textOf(answer))
      else expect(output.at(-1)?.type).toBe('reasoning')
    }
  })
  llama('it calls what it must call, with arguments that fit', async () => {
    const forced = await ask('plain', { tools: [trip, ticket], tool_choice: 'required', parallel_tool_calls: false })
    expect(callsIn(forced)).toHaveLength(1)
    expect(textOf(forced)).toBe('')
    const named = await ask('plain', { tools: [trip, ticket], tool_choice: { type: 'function', name: 'trip' } })
    expect(named.response.output.map((item) => item.name)).toEqual(['trip'])
    fits(named.response.output[0]?.arguments ?? '')
  })
  llama('the input of a custom tool fits its grammar', async () => {
    const lark = await ask('plain', { tools: [edit, trip], tool_choice: { type: 'custom', name: 'edit' } })
    expect(callsIn(lark)[0]?.input).toMatch(
      /^\*\*\* Begin Patch\n(\*\*\* Delete File: [a-z]{1,4}\n)+\*\*\* End Patch\n?$/,
    )
    const regex = await ask('think', { tools: [ticket], tool_choice: 'required', ...quiet })
    expect(callsIn(regex).length).toBeGreaterThan(0)
    for (const { input } of callsIn(regex)) expect(input).toMatch(/^[A-Z]{2}-\d{1,3}$/)
  })
})
describe('what it cannot be held to', () => {
  const impossible = { ...trip, parameters: { ...schema, not: {} } }
  llama('is a status before anything is sampled, with the field', async () => {
    expect(await ask('plain', { text: { format: { ...format, schema: { not: {} } } } })).toMatchObject({
      status: 400,
      param: 'text.format',
    })
    expect(await ask('plain', { tools: [impossible] })).toMatchObject({ status: 400, param: 'tools' })
  })
  llama('is only told where grammars are advice', async () => {
    expect(await ask('told', { tools: [impossible], max_output_tokens: 16 })).toMatchObject({ status: 200 })
    const answer = await ask('told', { tools: [impossible], tool_choice: 'required', parallel_tool_calls: false })
    expect(answer.status).toBe(200)
    if (answer.response.status === 'completed') expect(callsIn(answer)[0]?.name).toBe('trip')
  })
})
