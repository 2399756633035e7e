// Grammars of clients on their way through the checks to a real llama-server, where LLAMA_SERVER names the binary: what is
// taken is followed by a model of random weights, what is meant to end the process is refused, and the process lives.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { llamaServer } from '../../src/engines/llama-server.ts'
import { ApiError } from '../../src/protocol/errors.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'
import type { Constraint, Content, Engine } from '../../src/turn/ports.ts'
import { tinyControls, tinyTokenizer, writeTinyGguf } from '../../src/bench/tiny-gguf.ts'
import { callTo, read } from './simulated-generations.ts'
import { chain, promptOf, stop, tokensOf, turn, until } from './token-prompts.ts'

const binary = process.env['LLAMA_SERVER']
const tokenizer = byteTokenizer(tinyControls)

describe.skipIf(!binary)('grammars of clients on a real llama-server (LLAMA_SERVER names the binary)', () => {
  const folder = mkdtempSync(join(tmpdir(), 'llama-grammars-'))
  let server: ChildProcess | undefined
  let engine: Engine
  beforeAll(async () => {
    const model = join(folder, 'tiny.gguf')
    writeTinyGguf(model, { tokenizer: tinyTokenizer(tinyControls, false), template: '{{ messages }}', eos: stop })
    const port = await freePort()
    const flags = ['-t', '1', '--parallel', '1', '-c', '1024', '--port', String(port)]
    server = spawn(binary ?? '', ['-m', model, '--host', '127.0.0.1', ...flags], { stdio: 'ignore' })
    engine = llamaServer({ url: `http://127.0.0.1:${port}` }, 'real')
    const up = (): Promise<boolean> =>
      engine.probe(AbortSignal.timeout(1000)).then(
        () => true,
        () => false,
      )
    await until(up, 60_000)
  }, 70_000)
  afterAll(async () => {
    await engine.close()
    server?.kill()
    rmSync(folder, { recursive: true })
  })

  /** As a turn does it: admitted first. Undefined where it was refused, else what was written. */
  const ask = async (content: Content, after?: string): Promise<string | undefined> => {
    const constraint: Constraint = { after, rule: { type: 'whole', content } }
    const prompt = promptOf(tokenizer, turn(tokenizer, 'go'), { constraint })
    const call = callTo(chain, { max_output_tokens: 60, temperature: 1 }, { prompt })
    try {
      engine.admit(call.settings, chain, constraint)
    } catch (e) {
      if (!(e instanceof ApiError)) throw e
      expect([e.status, e.param]).toEqual([400, 'text.format'])
      return undefined
    }
    const got = await read(engine, call)
    expect(got.error).toBeUndefined()
    // A grammar sees text: a control token whose name fits is one way to write it.
    return tokenizer.decode(tokensOf(got).filter((id) => !prompt.stops.includes(id)))
  }
  const alive = async (): Promise<void> => {
    expect(server?.exitCode).toBeNull()
    expect(await engine.probe(AbortSignal.timeout(5000))).toHaveLength(1)
  }
  it.each<[string, Content]>([
    ['a NUL', { type: 'regex', definition: '\\0', quoted: false }],
    ['a NUL by its number', { type: 'regex', definition: 'a\\x00b', quoted: false }],
    ['a class of NUL alone', { type: 'regex', definition: '[\\x00]', quoted: false }],
    ['a NUL as it is', { type: 'regex', definition: 'a\0', quoted: false }],
    ['a NUL in a string of Lark', { type: 'lark', definition: 'start: "\\x00"', quoted: false }],
    ['a range of NUL alone in Lark', { type: 'lark', definition: 'start: "\\x00".."\\x00"', quoted: false }],
    ['a NUL in a pattern', { type: 'json', schema: { type: 'string', pattern: '^\\u0000$' } }],
    ['a NUL in an enumeration', { type: 'json', schema: { enum: ['a\0'] } }],
    ['a NUL in a name', { type: 'json', schema: { type: 'object', properties: { 'a\0': {} }, required: ['a\0'] } }],
    ['no text at all', { type: 'lark', definition: 'start: start "a"', quoted: false }],
    ['%llguidance', { type: 'lark', definition: '%llguidance {}\nstart: "a"', quoted: false }],
    ['half a surrogate pair', { type: 'regex', definition: '\ud800', quoted: false }],
    ['repetitions of repetitions', { type: 'regex', definition: '((a{1000}){1000}){1000}', quoted: false }],
  ])('that ask for %s are refused', async (_, content) => {
    expect(await ask(content)).toBeUndefined()
    await alive()
  })
  // Of bytes that make no character llama.cpp lets some pass: this model has nothing but bytes, and each is one then.
  it.each<[string, Content, RegExp]>([
    ['a class with NUL in it', { type: 'regex', definition: '[\\0ab]{3}', quoted: false }, /^[ab]{3}$/],
    ['a class from NUL on', { type: 'regex', definition: '[\\x00-\\x1f]{3}', quoted: false }, /^[^\0 -\uffff]{3}$/],
    ['all but NUL', { type: 'regex', definition: '[^\\0]{3}x', quoted: false }, /^[^\0]{3,}x$/su],
    ['names of tokens', { type: 'regex', definition: '<\\|im_end\\|>|<think>|<\\[7\\]>', quoted: false }, /^<.*>$/],
    [
      'words of GBNF',
      { type: 'lark', definition: 'start: "root ::= \\"" "]" "\\\\x00"', quoted: false },
      /^root ::= "\]\\x00$/,
    ],
    ['a member for ever', { type: 'lark', definition: 'start: "a" start | "b"', quoted: false }, /^a*b?$/],
    ['left recursion', { type: 'lark', definition: 'start: start "a" | "b"', quoted: false }, /^ba*$/],
    ['what is optional for ever', { type: 'regex', definition: '((a?b?)*c?)*', quoted: false }, /^[abc]*$/],
    ['every character', { type: 'regex', definition: '(?s:.){5}', quoted: false }, /^[^\0]{5,}$/su],
    [
      'the last characters',
      { type: 'regex', definition: '[\\U0010fff0-\\U0010ffff]{2}', quoted: false },
      /^[^\0-\u07ff]{2,}$/u,
    ],
  ])('of %s are followed', async (_, content, wanted) => {
    expect(await ask(content)).toMatch(wanted)
    await alive()
  })
  it('of any JSON schema hold behind reasoning that never begins', async () => {
    const text = await ask({ type: 'json', schema: { type: 'integer', minimum: 10, maximum: 99 } }, '</think>')
    // A model of random weights may think after all, and then it is still at it.
    expect(text).toMatch(/^\s*(?:\d\d$|[^\d]|.{20})/su)
    await alive()
  })
})

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}
