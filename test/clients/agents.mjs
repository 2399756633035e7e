// The OpenAI Agents SDK over its WebSocket transport: a tool loop, a continuation, a full history, all on one socket.
import { Agent, setTracingDisabled, tool, withResponsesWebSocketSession } from '@openai/agents'
import { WebSocket } from 'ws'
import { z } from 'zod'
import { apiKey, baseUrl, check, end, expect, model, weather } from './report.mjs'

let sockets = 0
// Node 20 has no global WebSocket, which this SDK wants.
globalThis.WebSocket = class extends WebSocket {
  constructor(...args) {
    super(...args)
    sockets++
  }
}
setTracingDisabled(true)

let runs = 0
const get = tool({
  name: weather.name,
  description: weather.description,
  parameters: z.object({ city: z.string() }),
  execute({ city }) {
    runs++
    return `sunny in ${city}`
  },
})
const agent = new Agent({ name: 'Weather', instructions: 'Use the tool, then answer.', tools: [get], model })
const options = {
  providerOptions: { apiKey, baseURL: baseUrl },
  responsesWebSocketOptions: { pingIntervalMs: 500, pingTimeoutMs: 2000 },
}

await withResponsesWebSocketSession(async ({ runner }) => {
  let last
  await check(
    'a run calls the tool and ends in text',
    async () => {
      last = await runner.run(agent, 'What is the weather in Berlin?')
      expect(runs > 0, 'a tool call')
      expect(last.finalOutput, 'text', last.finalOutput)
      return { runs }
    },
    30_000,
  )
  await check(
    'a streamed run goes on from the last response id',
    async () => {
      last = await runner.run(agent, 'And in Paris?', { previousResponseId: last.lastResponseId, stream: true })
      let events = 0
      for await (const _ of last) events++
      await last.completed
      expect(last.finalOutput && events > 0, 'text and events', { text: last.finalOutput, events })
      return { events }
    },
    30_000,
  )
  await check(
    'a run with the full history is accepted',
    async () => {
      const { finalOutput } = await runner.run(agent, [...last.history, { role: 'user', content: 'And in Rome?' }])
      expect(finalOutput, 'text', finalOutput)
    },
    30_000,
  )
}, options)
await check('all of it went over one socket', () => {
  expect(sockets === 1, 'one socket', sockets)
})
end()
