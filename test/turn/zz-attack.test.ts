import { afterEach, expect, test } from 'vitest'
import type { SimulatedProbe } from '../../src/engines/simulated.ts'
import { smallBpeFile } from '../codecs/talks.ts'
import { qwen3 } from '../../src/codecs/hermes.ts'
import { startTestServer, type TestServer } from '../wire/server.ts'
import type { FamilyCodec } from '../../src/codecs/codec.ts'
import type { WireResponse } from '../wire/socket.ts'
let server: TestServer
afterEach(async () => { try { await server.close() } catch (e) { console.log('CLOSE', String(e), server.log.join('\n').slice(0, 1500)); await server.app.close() } })
async function start(more: object = {}, eng: object = {}) {
  server = await startTestServer({
    engines: { sim: { type: 'simulated', tokens: true, record: true, rounds: 50, reasoning: false, ...eng } },
    models: { '*': { engine: 'sim', codec: 'qwen3', tokenizer: smallBpeFile(qwen3) } },
    ...more,
  })
  const codec = server.app.models.resolve('m').codec as FamilyCodec
  return { codec, probe: server.app.models.engines.get('sim') as unknown as SimulatedProbe }
}
const post = async (b: object) => (await server.http().post('/v1/responses', { model: 'm', ...b })).json as WireResponse
const tools = [{ type: 'function', name: 'ls', parameters: { type: 'object', properties: {} }, strict: false }]
const u = (content: string) => ({ role: 'user', content })
test('F other instructions', async () => {
  const { codec, probe } = await start()
  const r1 = await post({ instructions: 'AAAA', input: [u('go')], store: true })
  await post({ instructions: 'BBBB', input: [u('go')] })
  await post({ instructions: 'BBBB', previous_response_id: r1.id, input: [u('and')] })
  const said = codec.tokenizer.decode(probe.got.at(-1)?.ids ?? [])
  await new Promise((r) => setTimeout(r, 50))
  console.log('F', said.slice(0, 60), server.app.counts().shadowMismatches)
})
test('G tool_choice none false alarm', async () => {
  await start()
  const r1 = await post({ tools, input: [u('go')], store: true })
  const call = (r1.output as any[]).find((i) => i.type === 'function_call')
  await post({ tools, tool_choice: 'none', previous_response_id: r1.id, input: [{ type: 'function_call_output', call_id: call.call_id, output: 'x' }] })
  await new Promise((r) => setTimeout(r, 50))
  console.log('G', server.app.counts().shadowMismatches, server.log.join('\n').slice(0, 500))
})
test('G2 two at once', async () => {
  await start({}, { tokensPerSecond: 200 })
  await post({ instructions: 'X', input: [u('go')] })
  await Promise.all([post({ instructions: 'AAA', input: [u('go')] }), post({ instructions: 'BBB', input: [u('go')] })])
  await new Promise((r) => setTimeout(r, 50))
  console.log('G2', server.app.counts().shadowMismatches, server.log.join('\n').slice(0, 500))
})
test('H hash of nested id', async () => {
  const { codec, probe } = await start()
  const at = (d: string) => ({ type: 'additional_tools', role: 'developer', tools: [{ type: 'function', name: 'look', parameters: { type: 'object', properties: { id: { type: 'string', description: d } } }, strict: false }] })
  const a = await post({ input: [at('FIRST'), u('go')] })
  const b = await post({ input: [at('SECOND'), u('go')] })
  console.log('H', a.status, b.status, JSON.stringify((a as any).error ?? a).slice(0, 200), codec.tokenizer.decode(probe.got.at(-1)?.ids ?? []).match(/FIRST|SECOND/)?.[0])
})
test('E empty warm-ups', async () => {
  const { codec, probe } = await start()
  const s = await server.socket()
  const w = (await s.turn({ model: 'm', store: false, generate: false, input: [] })).response as any
  const r = (await s.turn({ model: 'm', store: false, previous_response_id: w.id, input: [u('go')], tools })).response as any
  const t = await server.socket()
  await t.turn({ model: 'm', store: false, generate: false, input: [] })
  const before = codec.rendered.items
  await t.turn({ model: 'm', store: false, tools, input: [u('go'), ...r.output, ...r.output.filter((i: any) => i.type === 'function_call').map((i: any) => ({ type: 'function_call_output', call_id: i.call_id, output: 'x' }))] })
  console.log('E rendered', codec.rendered.items - before, probe.got.at(-1)?.cached)
})
async function blocked(run: () => Promise<unknown>) {
  let worst = 0, last = performance.now()
  const t = setInterval(() => { const n = performance.now(); worst = Math.max(worst, n - last); last = n }, 1)
  await new Promise((r) => setTimeout(r, 20)); worst = 0; last = performance.now()
  const r = await run(); await new Promise((r) => setTimeout(r, 20)); clearInterval(t)
  return [Math.round(worst), JSON.stringify(r).slice(0, 150)]
}
test.each(['calls', 'reasoning', 'systems', 'head', 'many'])('DoS %s', async (kind) => {
  await start({ tokens: { shadow: 0 } })
  const { parseCreate } = await import('../../src/protocol/request.ts')
  const { Chain } = await import('../../src/turn/chain.ts')
  const codec = server.app.models.resolve('m').codec as FamilyCodec
  const N = 20000
  const ns = [...Array(N).keys()]
  const input: any[] =
    kind === 'calls' ? [...ns.map((n) => ({ type: 'function_call', call_id: `c${n}`, name: 'ls', arguments: '{}' })), ...ns.map((n) => ({ type: 'function_call_output', call_id: `c${n}`, output: 'x' }))]
    : kind === 'reasoning' ? [...ns.map((n) => ({ type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'x' }] })), u('go')]
    : kind === 'systems' ? [...ns.map((n) => ({ role: 'system', content: 'x' })), u('go')]
    : kind === 'head' ? [{ role: 'system', content: 'x'.repeat(1e6) }, { role: 'system', content: 'y'.repeat(1e6) }, ...ns.slice(0, 5000).map(() => u('x')), u('go')]
    : [...ns.map((n) => u('hello there my friend, ' + Math.random().toString(36).repeat(10)))]
  const t0 = performance.now()
  const parsed = parseCreate({ model: 'm', input })
  const t1 = performance.now()
  const chain = Chain.root('o').add({ response: 'r', from: 'input', items: parsed.input })
  const t2 = performance.now()
  if (kind === 'onlyparse') return
  const e = codec.encode(chain, parsed.settings)
  const t3 = performance.now()
  console.log(kind, 'parse', Math.round(t1 - t0), 'chain', Math.round(t2 - t1), 'encode', Math.round(t3 - t2), e instanceof Promise)
  await e
}, 120000)
