// Vercel's AI SDK through its WebSocket fetch: full history in each step, item references, and, with --faults against a
// server whose simulated engine takes fault markers, an end after failed and incomplete responses (the SDK waits for ever
// unless the server closes the socket).
import { createOpenAI } from '@ai-sdk/openai'
import { createWebSocketFetch } from '@vercel/ai-sdk-openai-websocket-fetch'
import { generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai'
import { apiKey, baseUrl, check, end, expect, faults, model, socketUrl, weather } from './report.mjs'

let runs = 0
const tools = {
  [weather.name]: tool({
    description: weather.description,
    inputSchema: jsonSchema(weather.schema),
    execute({ city }) {
      runs++
      return { weather: `sunny in ${city}` }
    },
  }),
}
const prompt = 'What is the weather in Berlin?'

/** A provider with a socket of its own. */
function provider() {
  const socketFetch = createWebSocketFetch({ url: socketUrl })
  return { openai: createOpenAI({ apiKey, baseURL: baseUrl, fetch: socketFetch }), close: () => socketFetch.close() }
}

/** Streams to the end and returns text, steps, errors; AI SDK errors are events, not throws. */
async function stream(openai, options) {
  const errors = []
  const result = streamText({
    model: openai(model),
    onError: ({ error }) => errors.push(error),
    maxRetries: 0,
    ...options,
  })
  let text = ''
  for await (const part of result.textStream) text += part
  const steps = await result.steps.then(
    (all) => all.length,
    () => 0,
  )
  return { text, steps, errors: errors.map((error) => String(Object(error).message ?? error)) }
}

const { openai, close } = provider()
const loop = { tools, prompt, stopWhen: stepCountIs(12) }
const wellDone = ({ text, steps, errors }) => {
  expect(errors.length === 0, 'no errors', errors)
  expect(text.length > 0 && steps > 1 && runs > 0, 'text after a tool step', { text, steps, runs })
  return { steps }
}
await check('a stream of several steps ends in text', async () => wellDone(await stream(openai, loop)))
await check('the same with store: false', async () => {
  const providerOptions = { openai: { store: false, include: ['reasoning.encrypted_content'] } }
  return wellDone(await stream(openai, { ...loop, providerOptions }))
})
await check('generateText, which this SDK sends over HTTP', async () => {
  const { text, steps } = await generateText({ model: openai(model), maxRetries: 0, ...loop })
  expect(text.length > 0 && steps.length > 1, 'text after a tool step', { text, steps: steps.length })
  return { steps: steps.length }
})
close()

if (faults) {
  for (const how of ['failed', 'incomplete']) {
    await check(
      `the stream ends within 5 s after a response that is ${how}, and the next request is answered`,
      async () => {
        const { openai: fresh, close: leave } = provider()
        const start = performance.now()
        await stream(fresh, { prompt: `Say hello. [fault:${how}]` })
        const ms = Math.round(performance.now() - start)
        expect(ms < 5000, 'an end within 5000 ms', ms)
        const next = await stream(fresh, { prompt: 'Say hello.' })
        leave()
        expect(next.errors.length === 0 && next.text.length > 0, 'text', next)
        return { ms }
      },
      10_000,
    )
  }
}
end()
