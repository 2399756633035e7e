// What can be asked about a response over HTTP: while it runs, when it has ended, again from any event, and in short.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  begin,
  compileSchemas,
  endOf,
  lastPrompt,
  probeOf,
  readTool,
  simulated,
  startWith,
} from '../session/started.ts'
import type { Http } from '../wire/http.ts'
import { Grammar } from '../wire/grammar.ts'
import { eventually, type TestServer } from '../wire/server.ts'
import type { WireResponse } from '../wire/socket.ts'

let server: TestServer
let http: Http
beforeAll(async () => {
  compileSchemas()
  const turns = [
    {
      when: { contains: 'everything' },
      steps: [
        { reasoning: 'Let me see.' },
        { text: 'A word — ein Wört 🙂.' },
        { call: { name: 'read_file', arguments: { path: 'ä' } } },
      ],
    },
    {
      when: { contains: 'two calls' },
      steps: [
        { call: { name: 'read_file', arguments: { path: 'a' } } },
        { call: { name: 'read_file', arguments: { path: 'b' } } },
      ],
    },
    { when: { contains: 'replaced by a summary' }, steps: [{ text: 'They spoke of whales.' }] },
  ]
  server = await startWith({
    ...simulated({ scenario: { turns } }),
    limits: { http: { maxBodyBytes: 100_000 } },
    models: { '*': { engine: 'sim' }, 'a/b': { engine: 'sim' } },
  })
  http = server.http()
})
afterAll(() => server.close())

describe('a response that runs', () => {
  const hang = { input: 'x [fault:hang]' }
  test('can be read, and cancelled by its id; the client that waits hears of it', async () => {
    const socket = await server.socket()
    const { id } = await begin(socket, { ...hang, store: true })
    await socket.next('response.output_text.delta')
    expect(await http.get(`/v1/responses/${id}`)).toMatchObject({
      status: 200,
      json: { id, status: 'in_progress', output: [], usage: null },
    })
    const cancelled = await http.post(`/v1/responses/${id}/cancel`)
    expect(cancelled).toMatchObject({
      status: 200,
      json: { id, status: 'cancelled', incomplete_details: { reason: 'cancelled' } },
    })
    expect(await endOf(socket, id)).toEqual(cancelled.json)
    expect((await http.post(`/v1/responses/${id}/cancel`)).json).toEqual(cancelled.json)
    await server.quiet()
    expect((await http.get(`/v1/responses/${id}`)).json).toEqual(cancelled.json)
    expect((await socket.turn({ model: 'm', store: false, input: 'hi' })).response?.status).toBe('completed')
    await socket.close()
  })
  test('over HTTP can be cancelled, too: JSON and streams end', async () => {
    for (const stream of [false, true]) {
      const before = probeOf(server).calls
      const asked = stream ? http.stream({ model: 'm', ...hang }) : http.post('/v1/responses', { model: 'm', ...hang })
      await eventually(() => expect(probeOf(server).calls).toBe(before + 1))
      const id = probeOf(server).got.at(-1)?.id
      await http.post(`/v1/responses/${id}/cancel`)
      const { response, json } = { response: undefined, ...(await asked) } as { response?: WireResponse; json?: object }
      expect(response ?? json).toMatchObject({ id, status: 'cancelled' })
    }
  })
  test('is stopped by its deletion, and never seen again', async () => {
    const socket = await server.socket()
    const { id } = await begin(socket, { ...hang, store: true })
    await socket.next('response.output_text.delta')
    const { aborted } = probeOf(server)
    expect(await http.delete(`/v1/responses/${id}`)).toMatchObject({ status: 200, json: { id, deleted: true } })
    expect(await endOf(socket, id)).toMatchObject({ status: 'cancelled' })
    expect(probeOf(server).aborted).toBe(aborted + 1)
    await server.quiet()
    for (const path of ['', '?stream=true', '/input_items'])
      expect((await http.get(`/v1/responses/${id}${path}`)).status).toBe(404)
    expect((await socket.turn({ model: 'm', input: 'x', previous_response_id: id })).error?.code).toBe(
      'previous_response_not_found',
    )
    await socket.close()
  })
})

describe('a replay', () => {
  test('gives exactly the rest after every event, and nothing after the last', async () => {
    const { events, response } = await http.stream({ model: 'm', input: 'everything', tools: [readTool] })
    const path = `/v1/responses/${response?.id}?stream=true`
    for (let after = 0; after < events.length; after++) {
      const grammar = new Grammar()
      for (const event of events.slice(0, after + 1)) expect(grammar.feed(event)).toEqual([])
      const rest = await fetch(`${server.url}${path}&starting_after=${after}`)
      const said = await rest.text()
      const got = [...said.matchAll(/^data: (.*)$/gm)].map((m) => JSON.parse(m[1] ?? '') as unknown)
      expect(got).toEqual(events.slice(after + 1))
      for (const event of got) expect(grammar.feed(event)).toEqual([])
      expect(grammar.end()).toEqual([])
    }
  })
  test('from a number that was not given yet is a 400, whether the response runs or not', async () => {
    const socket = await server.socket()
    const { id } = await begin(socket, { input: 'x [fault:hang]', store: true })
    const ask = (): Promise<{ status: number; json: unknown }> =>
      http.get(`/v1/responses/${id}?stream=true&starting_after=1000`)
    expect(await ask()).toMatchObject({
      status: 400,
      json: { error: { code: 'invalid_request', param: 'starting_after' } },
    })
    socket.send({ type: 'response.interrupt', response_id: id })
    await endOf(socket, id)
    expect(await ask()).toMatchObject({ status: 400 })
    for (const bad of ['-1', 'x', '1.5'])
      expect((await http.get(`/v1/responses/${id}?stream=true&starting_after=${bad}`)).status).toBe(400)
    await socket.close()
  })
  test('is gone when the events are no longer kept, though the response is there', async () => {
    const brief = await startWith({ ...simulated(), limits: { events: { keepMs: 0 } } })
    const { json } = await brief.http().post('/v1/responses', { model: 'm', input: 'hi' })
    await eventually(async () =>
      expect((await brief.http().get(`/v1/responses/${String(json['id'])}?stream=true`)).status).toBe(410),
    )
    expect((await brief.http().get(`/v1/responses/${String(json['id'])}`)).json).toEqual(json)
    await brief.close()
  })
})

test('input_items are paged both ways, over the edges, and show what the request itself sent', async () => {
  const parent = await http.post('/v1/responses', { model: 'm', input: 'parent' })
  const input = Array.from({ length: 7 }, (_, n) => ({ role: 'user', content: `n${n}` }))
  const { json } = await http.post('/v1/responses', { model: 'm', input, previous_response_id: parent.json['id'] })
  await server.quiet()
  const path = `/v1/responses/${String(json['id'])}/input_items`
  type Listed = {
    data: { id: string; content: { text: string }[] }[]
    has_more: boolean
    first_id: string
    last_id: string
  }
  const read = async (query: string): Promise<Listed> => (await http.get(`${path}?${query}`)).json as unknown as Listed
  const texts = ({ data }: Listed): (string | undefined)[] => data.map((item) => item.content[0]?.text)
  expect(texts(await read(''))).toEqual(['n6', 'n5', 'n4', 'n3', 'n2', 'n1', 'n0'])
  for (const order of ['asc', 'desc']) {
    const all = await read(`order=${order}`)
    const walked: (string | undefined)[] = []
    let after = ''
    for (;;) {
      const page = await read(`order=${order}&limit=3${after}`)
      expect([page.first_id, page.last_id]).toEqual([page.data[0]?.id, page.data.at(-1)?.id])
      walked.push(...texts(page))
      if (!page.has_more) break
      after = `&after=${page.last_id}`
    }
    expect(walked).toEqual(texts(all))
  }
  expect(await read(`after=${(await read('')).last_id}`)).toMatchObject({ data: [], has_more: false, first_id: null })
  expect((await http.get(`${path}?after=msg_none`)).json).toMatchObject({ error: { code: 'item_not_found' } })
  for (const query of ['limit=0', 'limit=101', 'order=up'])
    expect((await http.get(`${path}?${query}`)).status).toBe(400)
})

describe('a compaction', () => {
  test('by HTTP gives a window that goes on with its summary opened, and nothing of the rest', async () => {
    const first = await http.post('/v1/responses', { model: 'm', input: 'Tell me of whales.' })
    const { status, json } = await http.post('/v1/responses/compact', {
      model: 'm',
      previous_response_id: first.json['id'],
      input: 'And of krill.',
    })
    expect(status).toBe(200)
    const window = json['output'] as { type: string; encrypted_content?: string }[]
    expect(window.map((item) => item.type)).toEqual(['message', 'message', 'compaction'])
    expect(JSON.stringify(window)).not.toContain('spoke of whales')
    const again = await http.post('/v1/responses', {
      model: 'm',
      store: false,
      input: [...window, { role: 'user', content: 'So?' }],
    })
    expect(again.status).toBe(200)
    expect(lastPrompt(server)).toMatch(
      /^user: Tell me of whales\.\nuser: And of krill\.\nuser: \[Summary of the conversation so far\]\nThey spoke of whales\.\nuser: So\?\n$/,
    )
    const forged = window.map((item) =>
      item.encrypted_content === undefined
        ? item
        : { ...item, encrypted_content: `${item.encrypted_content.slice(0, -6)}AAAAAA` },
    )
    expect(await http.post('/v1/responses', { model: 'm', input: forged })).toMatchObject({
      status: 400,
      json: { error: { code: 'invalid_encrypted_content' } },
    })
  })
  test('by a trigger on the socket is one item, shows no word of it, and the chain goes on from the summary', async () => {
    const socket = await server.socket()
    const one = await socket.turn({ model: 'm', store: false, input: 'Tell me of whales.' })
    const input = [{ type: 'compaction_trigger' }]
    const compacted = await socket.turn({ model: 'm', store: false, previous_response_id: one.response?.id, input })
    expect(compacted.response?.output.map((item) => item.type)).toEqual(['compaction'])
    expect(compacted.events.map((e) => e.type)).toContain('response.compaction.compacting')
    expect(JSON.stringify(compacted.events)).not.toContain('spoke of whales')
    await socket.turn({ model: 'm', store: false, previous_response_id: compacted.response?.id, input: 'So?' })
    expect(lastPrompt(server)).toBe('user: [Summary of the conversation so far]\nThey spoke of whales.\nuser: So?\n')
    const twice = [{ type: 'compaction_trigger' }, { role: 'user', content: 'x' }]
    expect((await socket.turn({ model: 'm', store: false, input: twice })).error).toMatchObject({
      code: 'invalid_request',
      param: 'input',
    })
    await socket.close()
  })
})
