// The official OpenAI SDK for Node: JSON, SSE, every route it knows, WebSocket mode, lanes, forks.
import OpenAI, { APIError } from 'openai'
import { ResponsesWebSocketSession } from 'openai/lib/responses/responses-websocket-session'
import { ResponsesWS } from 'openai/resources/responses/ws'
import { apiKey, baseUrl, check, end, expect, model, weather } from './report.mjs'

const client = new OpenAI({ apiKey, baseURL: baseUrl, maxRetries: 0 })
const { schema: parameters, ...tool } = weather
const tools = [{ type: 'function', strict: true, parameters, ...tool }]
const question = 'What is the weather in Berlin?'
const kinds = (response) => response.output.map((item) => item.type)
const calls = (response) => response.output.filter((item) => item.type === 'function_call')
const answers = (response) =>
  calls(response).map(({ call_id }) => ({ type: 'function_call_output', call_id, output: 'sunny' }))

/** The APIError a promise ends with; throws when it does not. */
async function refusal(promise) {
  const error = await promise.then(
    () => undefined,
    (reason) => reason,
  )
  expect(error instanceof APIError, 'a refusal', error?.message ?? 'success')
  return error
}

// ── HTTP ──
const first = await client.responses.create({ model, input: 'Say hello.' }).catch((error) => error)

await check('create answers with text and the requested model name', () => {
  if (first instanceof Error) throw first
  expect(first.status === 'completed' && first.output_text.length > 0, 'a completed text', first)
  expect(first.model === model, `model ${model}`, first.model)
  return kinds(first)
})
await check('create as a stream runs from created to completed with dense numbers', async () => {
  const events = []
  for await (const event of await client.responses.create({ model, input: 'Say hello.', stream: true }))
    events.push(event)
  expect(events[0].type === 'response.created', 'response.created first', events[0].type)
  expect(events.at(-1).type === 'response.completed', 'response.completed last', events.at(-1).type)
  expect(
    events.every((event, place) => event.sequence_number === place),
    'dense sequence numbers',
    events.map((event) => event.sequence_number),
  )
  const deltas = events.filter((event) => event.type === 'response.output_text.delta')
  const whole = events.find((event) => event.type === 'response.output_text.done')
  expect(deltas.map((event) => event.delta).join('') === whole.text, 'the deltas to make up the text')
  return events.length
})
await check('the stream helper puts the text together', async () => {
  const response = await client.responses.stream({ model, input: 'Say hello.' }).finalResponse()
  expect(response.output_text.length > 0, 'text', response.output)
})
await check('a tool loop over HTTP with previous_response_id ends in text', async () => {
  let response = await client.responses.create({ model, input: question, tools })
  expect(calls(response).length > 0, 'a function_call', kinds(response))
  let rounds = 0
  for (; calls(response).length > 0 && rounds < 20; rounds++) {
    for (const call of calls(response))
      expect(typeof JSON.parse(call.arguments).city === 'string', 'a city', call.arguments)
    response = await client.responses.create({
      model,
      tools,
      previous_response_id: response.id,
      input: answers(response),
    })
  }
  expect(response.output_text.length > 0, 'text at the end', kinds(response))
  return rounds
})
await check('parse returns an object of the JSON schema', async () => {
  const schema = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'], additionalProperties: false }
  const format = { type: 'json_schema', name: 'answer', strict: true, schema }
  const { output_parsed } = await client.responses.parse({ model, input: 'Say hello.', text: { format } })
  expect(typeof output_parsed.a === 'string', 'a string in `a`', output_parsed)
})
await check('retrieve gives the stored response', async () => {
  const again = await client.responses.retrieve(first.id)
  expect(again.id === first.id && again.output_text === first.output_text, 'the same response', again)
})
await check('retrieve as a stream goes on behind starting_after', async () => {
  const numbers = []
  for await (const event of await client.responses.retrieve(first.id, { stream: true, starting_after: 1 }))
    numbers.push(event.sequence_number)
  expect(numbers[0] === 2, 'number 2 first', numbers[0])
  return numbers.length
})
await check('input items lists the request', async () => {
  const { data } = await client.responses.inputItems.list(first.id)
  expect(data.length === 1 && data[0].type === 'message', 'one message', data)
})
await check('input tokens counts', async () => {
  const { input_tokens } = await client.responses.inputTokens.count({ model, input: 'Say hello.' })
  expect(input_tokens > 0, 'a count', input_tokens)
  return input_tokens
})
await check('compact answers with a compaction that can be sent back', async () => {
  const input = [{ role: 'user', content: 'Remember the number 7.' }]
  const compacted = await client.responses.compact({ model, input })
  expect(compacted.object === 'response.compaction', 'response.compaction', compacted.object)
  const next = await client.responses.create({
    model,
    store: false,
    input: [...compacted.output, { role: 'user', content: 'Go on.' }],
  })
  expect(next.status === 'completed', 'a completed response', next)
})
await check('models can be listed and retrieved', async () => {
  const { data } = await client.models.list()
  expect(data.length > 0, 'a model', data)
  const one = await client.models.retrieve(data[0].id)
  expect(one.id === data[0].id, 'the same model', one)
  return data.map((entry) => entry.id)
})
await check('an unknown previous id is refused by its code', async () => {
  const error = await refusal(client.responses.create({ model, input: 'x', previous_response_id: 'resp_unknown' }))
  expect(error.code === 'previous_response_not_found', 'previous_response_not_found', error.code)
  return error.status
})
await check('delete makes the response unknown', async () => {
  await client.responses.delete(first.id)
  const error = await refusal(client.responses.retrieve(first.id))
  expect(error.status === 404, '404', error.status)
})

// ── WebSocket mode ──
async function open() {
  const ws = new ResponsesWS(client)
  await new Promise((resolve, reject) => {
    ws.socket.on('open', resolve)
    ws.socket.on('error', reject)
  })
  ws.on('error', () => {}) // Error frames come as events too; without a listener the SDK throws them.
  return ws
}
const endings = new Set(['response.completed', 'response.failed', 'response.incomplete', 'error'])

/** One turn on a socket; returns its last event. */
function turn(ws, body) {
  return new Promise((resolve) => {
    const listen = (event) => {
      if (!endings.has(event.type)) return
      ws.off('event', listen)
      resolve(event)
    }
    ws.on('event', listen)
    ws.send({ type: 'response.create', model, store: false, ...body })
  })
}
async function completed(ws, body) {
  const event = await turn(ws, body)
  expect(event.type === 'response.completed', 'response.completed', event)
  return event.response
}

await check('socket: a warm-up, then a tool loop in which every request holds only what is new', async () => {
  const ws = await open()
  let response = await completed(ws, { generate: false, tools, input: [] })
  expect(response.output.length === 0, 'an empty warm-up', response.output)
  response = await completed(ws, {
    tools,
    previous_response_id: response.id,
    input: [{ role: 'user', content: question }],
  })
  let rounds = 0
  for (; calls(response).length > 0 && rounds < 20; rounds++)
    response = await completed(ws, { tools, previous_response_id: response.id, input: answers(response) })
  ws.close()
  expect(rounds > 0, 'at least one tool round')
  expect(response.output_text === undefined || kinds(response).includes('message'), 'text at the end', kinds(response))
  return rounds
})
await check('socket: an error frame has status and code, and the socket lives on', async () => {
  const ws = await open()
  const event = await turn(ws, { previous_response_id: 'resp_unknown', input: 'x' })
  expect(event.type === 'error' && event.status === 400, 'an error frame with status 400', event)
  expect(event.error.code === 'previous_response_not_found', 'previous_response_not_found', event.error)
  await completed(ws, { input: 'Say hello.' })
  ws.close()
})
await check('socket: three lanes at once, then a fork of one from another', async () => {
  const ws = await open()
  const session = new ResponsesWebSocketSession(ws, { maxLanes: 4, maxBufferedEvents: 10_000, maxBufferedBytes: 8e6 })
  const lanes = [session.lane('a'), session.lane('b'), session.lane()]
  for (const [place, lane] of lanes.entries()) lane.create({ model, input: `Say ${place}.` })
  const [, parent] = await Promise.all(lanes.map((lane) => lane.finalResponse()))
  lanes[0].create({ model, previous_response_id: parent.id, input: 'Go on.' })
  const fork = await lanes[0].finalResponse()
  ws.close()
  expect(fork.previous_response_id === parent.id, `a child of ${parent.id}`, fork.previous_response_id)
})
end()
