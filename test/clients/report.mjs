// What every client script here starts from: where the server is, named checks, one line each, and the count at the end.
// Usage of each script: node SCRIPT [BASE_URL] [--faults]. Environment: MODEL, API_KEY.

const args = process.argv.slice(2)
export const faults = args.includes('--faults')
export const baseUrl = (args.find((arg) => !arg.startsWith('-')) ?? 'http://127.0.0.1:8787/v1').replace(/\/+$/, '')
export const socketUrl = `${baseUrl.replace(/^http/, 'ws')}/responses`
export const model = process.env.MODEL ?? 'gpt-5.5'
export const apiKey = process.env.API_KEY ?? 'sk-local'

let passed = 0
let failed = 0

/** Runs one check: it fails when it throws, or has not ended after `limit` milliseconds. What it returns is printed. */
export async function check(name, body, limit = 15_000) {
  const { promise: late, timer } = deadline(limit)
  try {
    const detail = await Promise.race([body(), late])
    passed++
    console.log(`ok    ${name}${detail === undefined ? '' : `  ${JSON.stringify(detail)}`}`)
  } catch (error) {
    failed++
    const { status = '', code = '', message } = Object(error)
    console.log(`FAIL  ${name}  ${[status, code, String(message ?? error)].join(' ').trim().slice(0, 400)}`)
  } finally {
    clearTimeout(timer)
  }
}

function deadline(limit) {
  let timer
  const promise = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${limit} ms`)), limit)
  })
  return { promise, timer }
}

/** Throws unless `truth` holds; `what` says what was wanted, `got` what there was. */
export function expect(truth, what, got) {
  if (!truth) throw new Error(`expected ${what}${got === undefined ? '' : `, got ${JSON.stringify(got)}`}`)
}

/** Prints the count and ends the process, since clients may hold sockets open. */
export function end() {
  console.log(`${passed} passed, ${failed} failed`)
  process.exit(failed > 0 || passed === 0 ? 1 : 0)
}

/** The one tool the SDK scripts offer. */
export const weather = {
  name: 'get_weather',
  description: 'The weather of a city',
  schema: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
}
