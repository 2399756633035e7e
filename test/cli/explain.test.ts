import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { describe, expect, it, vi } from 'vitest'
import { qwen3 } from '../../src/codecs/hermes.ts'
import { smallBpeFile } from '../codecs/talks.ts'
import { emptyFolder, run, serving } from './program.ts'

// Every test starts whole processes, and a busy machine takes seconds for each.
vi.setConfig({ testTimeout: 90_000 })

const tokens = ['--codec', 'qwen3', '--tokenizer', smallBpeFile(qwen3)]
const first = { model: 'm', instructions: 'Be brief. It is 9:14.', input: 'Hello' }
const second = { ...first, type: 'response.create', instructions: 'Be brief. It is 9:15.' }

function folderWith(files: Readonly<Record<string, unknown>>): string {
  const cwd = emptyFolder()
  for (const [name, value] of Object.entries(files))
    writeFileSync(join(cwd, name), typeof value === 'string' ? value : JSON.stringify(value))
  return cwd
}
/** With something on stdin, which `run` has not. */
async function piped(
  args: readonly string[],
  cwd: string,
  text: string,
): Promise<{ code: number | null; out: string }> {
  const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
  const child = spawn(process.execPath, ['--import', tsx, main, ...args], {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', HOME: cwd },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let out = ''
  child.stdout.on('data', (bytes) => (out += String(bytes)))
  child.stdin.end(text)
  return await new Promise((resolve) => child.on('close', (code) => resolve({ code, out })))
}

describe('continuo explain', () => {
  it('shows people the place, the reason, the cost and what to do, and makes no file', async () => {
    const cwd = folderWith({ 'a.json': first, 'b.json': second })
    const { code, out, err } = await run(['explain', 'a.json', 'b.json', ...tokens], { cwd })
    expect([code, err]).toEqual([0, ''])
    expect(out).toContain('model m, written by codec qwen3/tool_cycle')
    expect(out).toMatch(/They part at token \d+ of \d+, in the instructions:/)
    expect(out).toContain('a date, a time or a number in the instructions changed, at character 19.')
    expect(out).toMatch(/ {2}both {4}….*⏎Be brief\. It is 9:1\n {2}first {3}4\.<\|im_end\|>⏎/)
    expect(out).toMatch(/Cost: \d+ of \d+ tokens must be prefilled, about \d+ of them again\./)
    expect(out).toContain('What to do: Put the date')
    // Not a terminal: no colours.
    expect(out).not.toContain('\u001b')
    expect(readdirSync(cwd).toSorted()).toEqual(['a.json', 'b.json'])
  })

  it('prints one object for programs, and reads one request from stdin', async () => {
    const cwd = folderWith({ 'a.json': first })
    const { code, out } = await piped(['explain', 'a.json', '-', '--json', ...tokens], cwd, JSON.stringify(second))
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({
      model: 'm',
      codec: 'qwen3/tool_cycle',
      first: { name: 'a.json', items: 1 },
      second: { name: 'stdin', items: 1 },
      unit: 'tokens',
      relation: 'parts',
      parted: {
        place: { in: 'head', part: 'instructions' },
        cause: 'clock',
        around: { first: expect.stringMatching(/^4\./), second: expect.stringMatching(/^5\./) },
        advice: expect.stringContaining('newest message'),
      },
      notes: [],
    })
  })

  it('says that items are compared where the engine writes the prompt', async () => {
    const cwd = folderWith({ 'a.json': first, 'b.json': { ...first, model: 'other' } })
    const { code, out } = await run(['explain', 'a.json', 'b.json', '--model', 'm'], { cwd })
    expect(code).toBe(0)
    expect(out).toContain('They are identical')
    expect(out).toContain('the engine "simulated" is sent items')
    const apart = await run(['explain', 'a.json', 'b.json'], { cwd })
    expect(apart.out).toContain('They part at once: the requests name other models, "m" and "other".')
  })

  it('needs no engine that answers where codec and tokenizer are configured', async () => {
    const cwd = folderWith({
      'a.json': first,
      'b.json': {
        ...first,
        input: [
          { role: 'user', content: 'Hello' },
          { role: 'user', content: 'Again' },
        ],
      },
      'continuo.yaml': `engines: {gpu: {type: vllm, url: "http://127.0.0.1:9"}}\nmodels: {m: {engine: gpu, codec: qwen3, tokenizer: ${tokens[3]}}}\n`,
    })
    const { code, out, err } = await run(['explain', 'a.json', 'b.json'], { cwd })
    expect([code, err]).toEqual([0, ''])
    expect(out).toMatch(/The second extends the first: \d+ tokens are new \(1 item\)\./)
    const unknown = await run(['explain', 'a.json', 'b.json', '--model', 'n'], { cwd })
    expect([unknown.code, unknown.err]).toEqual([
      1,
      "No model named 'n' is configured; GET /v1/models lists those there are.\n",
    ])
  })

  it('reads stored responses beside the server that runs', async () => {
    const cwd = emptyFolder()
    await using server = await serving([], { cwd })
    const ask = async (body: object): Promise<string> => {
      const answer = await fetch(`${server.url}/v1/responses`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      const made: unknown = await answer.json()
      return typeof made === 'object' && made !== null && 'id' in made ? String(made.id) : ''
    }
    const one = await ask(first)
    const two = await ask({ ...first, input: 'And now?', previous_response_id: one })
    // Written behind the answer.
    await vi.waitFor(async () => expect((await run(['explain', two], { cwd })).code).toBe(0), { timeout: 30_000 })
    const { out } = await run(['explain', two, '--json', ...tokens], { cwd })
    expect(JSON.parse(out)).toMatchObject({ first: { name: one }, second: { name: two }, relation: 'extends' })
  })

  it('says in a sentence what is wrong', async () => {
    const cwd = folderWith({ 'a.json': first, 'list.json': '[]', 'bad.json': { model: 3 } })
    const wrong: readonly (readonly [string[], string])[] = [
      [['a.json'], 'a.json is one request; give a second one to compare it with, or the id of a response.\n'],
      [['a.json', 'none.json'], 'none.json cannot be read (ENOENT'],
      [['a.json', 'list.json'], 'list.json: This is no JSON object.\n'],
      [['a.json', 'bad.json'], "bad.json is no request that this server takes: 'model'"],
      [['-', '-'], 'Only one of the two requests can come from stdin'],
      [['resp_1'], `There is no store at ${join(cwd, 'data', 'continuo.db')}`],
      [['a.json', 'a.json', '--codec', 'qwen33', '--tokenizer', tokens[3] ?? ''], 'did you mean "qwen3"?'],
    ]
    const ended = await Promise.all(wrong.map(([args]) => run(['explain', ...args], { cwd })))
    for (const [n, { code, out, err }] of ended.entries()) {
      expect([code, out]).toEqual([1, ''])
      expect(err).toContain(wrong[n]?.[1])
      expect(err).not.toMatch(/^ +at /m)
    }
    expect(readdirSync(cwd).toSorted()).toEqual(['a.json', 'bad.json', 'list.json'])
  })

  it('teaches its use', async () => {
    const { code, out } = await run(['explain', '--help'])
    expect(code).toBe(0)
    for (const text of ['Examples:', '--tokenizer', '--retention', '--json', 'resp_0123', 'counted from 0'])
      expect(out).toContain(text)
  })
})
