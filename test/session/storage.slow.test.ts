// What storage sees and when: content of `store: false` never, everything else behind the turn that made it.
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { memoryStore } from '../../src/stores/memory.ts'
import type { Store, Stored } from '../../src/turn/ports.ts'
import { pause, type TestServer } from '../wire/server.ts'
import { type Settings, simulated, startWith } from './started.ts'

let server: TestServer | undefined
let releaseHeld = (): void => {}
afterEach(async () => {
  releaseHeld()
  await server?.close()
  server = undefined
})
async function start(settings: Settings, store?: Store): Promise<TestServer> {
  server = await startWith({ ...simulated(), ...settings }, store === undefined ? {} : { store })
  return server
}
/** The memory store with a save that does something first, and a count of what it was given. */
function slowed(before: () => Promise<void>): Store & { readonly saved: Stored[] } {
  const saved: Stored[] = []
  const store = memoryStore()
  return {
    ...store,
    saved,
    async save(records) {
      await before()
      await store.save(records)
      saved.push(...records)
    },
  }
}

describe('canaries', () => {
  /** A turn with a canary in every place that can hold text, the model's answer included. */
  const body = (mark: string): Settings => ({
    model: 'm',
    instructions: `instructions ${mark}`,
    metadata: { note: `metadata ${mark}` },
    user: `user ${mark}`,
    safety_identifier: `safety ${mark}`,
    prompt_cache_key: `cache ${mark}`,
    tools: [
      {
        type: 'function',
        name: 'read_file',
        description: `tool ${mark}`,
        parameters: { type: 'object', properties: { [mark]: { type: 'string' } } },
        strict: false,
      },
    ],
    text: {
      format: {
        type: 'json_schema',
        name: 'answer',
        schema: { type: 'object', title: mark, properties: {} },
        strict: false,
      },
    },
    input: [
      { role: 'developer', content: `developer ${mark}` },
      { type: 'reasoning', summary: [{ type: 'summary_text', text: `summary ${mark}` }] },
      { type: 'function_call', call_id: `call_${mark}`, name: 'read_file', arguments: `{"a":"${mark}"}` },
      { type: 'function_call_output', call_id: `call_${mark}`, output: `output ${mark}` },
      { type: 'custom_tool_call', call_id: `custom_${mark}`, name: 'raw', input: `raw ${mark}` },
      {
        type: 'custom_tool_call_output',
        call_id: `custom_${mark}`,
        output: [{ type: 'input_text', text: `custom output ${mark}` }],
      },
      { type: 'newer_item', text: `newer ${mark}` },
      { role: 'user', content: [{ type: 'input_text', text: `say ${mark}` }] },
    ],
  })
  const filesWith = async (folder: string, mark: string): Promise<string[]> => {
    const found: string[] = []
    for (const name of await readdir(folder)) if ((await readFile(join(folder, name))).includes(mark)) found.push(name)
    return found
  }

  test('of store: false are in no file and no log line, on a socket, over HTTP, in failures and beside stored children', async () => {
    const data = await mkdtemp(join(tmpdir(), 'continuo-canary-'))
    const speak = (mark: string): object => ({
      when: { contains: `say ${mark}` },
      steps: [
        { reasoning: `thought ${mark}` },
        { text: `answer ${mark}` },
        { call: { name: 'read_file', arguments: { path: mark } } },
      ],
    })
    const turns = ['hidden-canary', 'shown-canary'].map(speak)
    const running = await start({ ...simulated({ scenario: { turns } }), data, store: { kind: 'sqlite' } })
    const socket = await running.socket()
    const hidden = await socket.turn({ ...body('hidden-canary'), store: false })
    expect(hidden.text).toContain('hidden-canary')
    const outputs = hidden.calls.map(({ call_id }) => ({
      type: 'function_call_output',
      call_id,
      output: 'file hidden-canary',
    }))
    const id = hidden.response?.id
    const again = await socket.turn({
      ...body('hidden-canary'),
      store: false,
      previous_response_id: id,
      input: outputs,
    })
    // Stored children of parents that were not stored, and the other way round.
    const child = await socket.turn({ ...body('shown-canary'), store: true, previous_response_id: again.response?.id })
    const grandchild = await socket.turn({
      ...body('hidden-canary'),
      store: false,
      previous_response_id: child.response?.id,
    })
    await socket.turn({ model: 'm', input: 'and now?', store: true, previous_response_id: grandchild.response?.id })
    await socket.turn({ ...body('hidden-canary'), store: false, generate: false })
    const refused = await socket.turn({
      ...body('hidden-canary'),
      store: false,
      tool_choice: { type: 'function', name: 'hidden-canary' },
    })
    expect(refused.error).toBeDefined()
    for (const fault of ['cut', 'overlap', 'error', 'vanish'])
      await socket.turn({ ...body('hidden-canary'), store: false, input: `say hidden-canary [fault:${fault}]` })
    await socket.turn({
      model: 'm',
      store: false,
      input: [{ role: 'user', content: 'say hidden-canary' }, { type: 'compaction_trigger' }],
    })
    socket.send('{"type":"response.create","model":"m","input":"hidden-canary"')
    socket.send({ type: 'hidden-canary', input: 'hidden-canary' })
    const http = running.http()
    expect((await http.post('/v1/responses', { ...body('hidden-canary'), store: false })).status).toBe(200)
    await http.stream({ ...body('hidden-canary'), store: false })
    await http.post('/v1/responses/compact', { model: 'm', input: 'say hidden-canary' })
    await http.post('/v1/responses/input_tokens', { model: 'm', input: 'say hidden-canary' })
    await http.post('/v1/responses', '{"input":"hidden-canary"', {
      headers: { 'x-client-request-id': 'hidden-canary' },
    })
    expect((await http.post('/v1/responses', { ...body('shown-canary'), store: true })).status).toBe(200)

    await running.quiet()
    // Looked at while the write-ahead log is there, and again when it is folded in.
    expect(await filesWith(data, 'hidden-canary')).toEqual([])
    expect(await filesWith(data, 'shown-canary')).not.toEqual([])
    await socket.close()
    await running.close()
    expect((await readdir(data)).length).toBeGreaterThan(1)
    expect(await filesWith(data, 'hidden-canary')).toEqual([])
    expect(await filesWith(data, 'shown-canary')).not.toEqual([])
    expect(running.log.length).toBeGreaterThan(10)
    expect(running.log.filter((line) => line.includes('canary'))).toEqual([])
    await rm(data, { recursive: true })
  })
})

describe('a store that takes 2 s for a save', () => {
  test('delays no next turn, and everything is readable before it is written', async () => {
    let saves = 0
    const store = slowed(() => pause(saves++ === 0 ? 2000 : 0))
    const running = await start({}, store)
    const socket = await running.socket()
    await socket.turn({ model: 'm', store: false, input: 'compile the schemas' })
    const begun = performance.now()
    let previous_response_id: string | undefined
    for (let n = 0; n < 10; n++) {
      const { response } = await socket.turn({ model: 'm', input: `n${n}`, previous_response_id })
      expect(response?.status).toBe('completed')
      previous_response_id = response?.id
    }
    expect(performance.now() - begun).toBeLessThan(1500)
    expect(store.saved).toEqual([])
    // From other doors, while the first write is on its way.
    const http = running.http()
    const got = await http.get(`/v1/responses/${previous_response_id}`)
    expect(got).toMatchObject({ status: 200, json: { status: 'completed' } })
    const output = got.json['output'] as { id: string }[]
    const other = await running.socket()
    const input = [
      { type: 'item_reference', id: output[0]?.id },
      { role: 'user', content: 'and?' },
    ]
    expect((await other.turn({ model: 'm', store: false, previous_response_id, input })).response?.status).toBe(
      'completed',
    )
    expect(
      (await http.post('/v1/responses', { model: 'm', store: false, previous_response_id, input: 'x' })).status,
    ).toBe(200)
    expect(store.saved).toEqual([])
    await running.quiet()
    expect(store.saved).toHaveLength(10)
    expect(await http.get(`/v1/responses/${previous_response_id}/input_items`)).toMatchObject({
      json: { data: [{ role: 'user' }] },
    })
  })
  test('cannot bring back what was deleted meanwhile', async () => {
    const store = slowed(() => pause(300))
    const running = await start({}, store)
    const http = running.http()
    const { json } = await http.post('/v1/responses', { model: 'm', input: 'hello' })
    expect((await http.delete(`/v1/responses/${String(json['id'])}`)).status).toBe(200)
    await running.quiet()
    expect((await http.get(`/v1/responses/${String(json['id'])}`)).status).toBe(404)
    expect(await store.load(String(json['id']), 'local/local')).toBeUndefined()
  })
})

describe('a store that fails', () => {
  test('is tried again, and nobody notices', async () => {
    let fails = 2
    const store = slowed(async () => {
      if (fails-- > 0) throw new Error('the disk is full')
    })
    const running = await start({}, store)
    const http = running.http()
    const { json } = await http.post('/v1/responses', { model: 'm', input: 'hello' })
    expect((await http.get(`/v1/responses/${String(json['id'])}`)).status).toBe(200)
    await running.quiet()
    expect(store.saved.map((r) => r.response.id)).toEqual([json['id']])
    expect(running.log.filter((line) => line.includes('"level":"error"'))).toEqual([])
  })
  test('turns new stored responses away beyond the limit, and lets the others go on', async () => {
    let release = (): void => {}
    const held = new Promise<void>((resolve) => (release = resolve))
    releaseHeld = release
    const store = slowed(() => held)
    const running = await start({ limits: { unsettled: 2 } }, store)
    const socket = await running.socket()
    for (const input of ['one', 'two'])
      expect((await socket.turn({ model: 'm', input })).response?.status).toBe('completed')
    // On a socket the response starts and fails, since clients try that again; over HTTP it is a status.
    const failed = await socket.turn({ model: 'm', input: 'three' })
    expect(failed.events.map((e) => e.type)).toEqual(['response.created', 'response.in_progress', 'response.failed'])
    expect(failed.response?.error?.code).toBe('rate_limit_exceeded')
    const over = await running.http().post('/v1/responses', { model: 'm', input: 'three' })
    expect(over).toMatchObject({ status: 503, json: { error: { code: 'server_is_overloaded' } } })
    expect(Number(over.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await socket.turn({ model: 'm', store: false, input: 'four' })).response?.status).toBe('completed')
    expect(running.app.counts().unsettled).toBe(2)
    release()
    await running.quiet()
    expect((await socket.turn({ model: 'm', input: 'five' })).response?.status).toBe('completed')
  })
})
