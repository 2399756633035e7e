import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { roughly, scenarioOf } from '../../src/bench/loop-task.ts'
import { replayTask } from '../../src/bench/replay.ts'
import { loadScenario } from '../../src/engines/scenario.ts'

const folder = mkdtempSync(join(tmpdir(), 'continuo-replay-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const options = { toolMs: 7, tools: 300, count: roughly }
const file = (text: string): string => {
  const path = join(folder, 'session.json')
  writeFileSync(path, text)
  return path
}
const items = [
  { type: 'message', role: 'user', content: 'Look.' },
  { type: 'function_call', call_id: 'c1', name: 'read', arguments: '{"a":1,"b":[2,3]}' },
  { type: 'function_call_output', call_id: 'c1', output: [{ type: 'input_text', text: 'out' }] },
  { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Seen.' }] },
]

describe('a session of Codex', () => {
  const session = fileURLToPath(new URL('fixtures/session.jsonl', import.meta.url))
  it('becomes the turns that its model spoke, with what the client said to each', async () => {
    const { task, told } = await replayTask(session, options)
    expect(task.instructions).toBe('You are a coding agent in a terminal.')
    expect(task.opening.length).toBe(2)
    expect(task.steps.map(({ says }) => says)).toEqual([
      [
        { reasoning: 'The README will say it.' },
        { call: { name: 'exec_command', arguments: '{"cmd": "cat README.md", "workdir": "/work"}' } },
        { call: { name: 'exec_command', arguments: '{"cmd": "ls"}' } },
      ],
      [
        { text: 'I note that down.' },
        {
          call: {
            name: 'apply_patch',
            arguments: '{"input": "*** Begin Patch\\n*** Add File: notes.md\\n+A server.\\n*** End Patch\\n"}',
          },
        },
      ],
      [{ text: 'It is a server for the Responses API; notes.md says so.' }],
      [{ text: 'No, that is all.' }],
    ])
    expect(task.steps[0]?.answers).toEqual([
      { call: 0, output: '# Continuo\n\nA server for the Responses API.\n' },
      { call: 1, output: 'README.md\nsrc\ntest\n' },
    ])
    expect(told.join(' ')).toContain('4 turns of a recorded session')
  })
  it('has the time of its tools, up to a limit', async () => {
    const { task } = await replayTask(session, options)
    expect(task.steps.map(({ toolMs }) => toolMs)).toEqual([50, 500, 0, 0])
  })
  it('is a scenario that the engine takes, and offers every tool that is called', async () => {
    const { task } = await replayTask(session, options)
    // A scenario as an object, which is checked there.
    expect(() => loadScenario(scenarioOf(task) as Parameters<typeof loadScenario>[0])).not.toThrow()
    const names = task.tools.map(({ name }) => name)
    expect(names.slice(0, 2)).toEqual(['exec_command', 'apply_patch'])
    expect(new Set(names).size).toBe(names.length)
  })
})

describe('a list of items', () => {
  it.each([
    ['as an array', JSON.stringify(items)],
    ['as lines', items.map((item) => JSON.stringify(item)).join('\n\n')],
  ])('is read %s', async (_, text) => {
    const { task } = await replayTask(file(text), options)
    expect(task.steps).toEqual([
      {
        says: [{ call: { name: 'read', arguments: '{"a": 1, "b": [2, 3]}' } }],
        answers: [{ call: 0, output: 'out' }],
        toolMs: 7,
      },
      { says: [{ text: 'Seen.' }], answers: [], toolMs: 0 },
    ])
  })
  it('answers a call that nobody answered, and leaves out what answers nothing', async () => {
    const [user, call, , answer] = items
    const stray = { type: 'function_call_output', call_id: 'other', output: 'x' }
    const more = { type: 'message', role: 'user', content: 'Go on.' }
    const { task, told } = await replayTask(file(JSON.stringify([user, call, stray, more, answer])), options)
    expect(task.steps[0]?.answers).toMatchObject([{ call: 0, output: '(no output)' }, { item: { role: 'user' } }])
    expect(told.join(' ')).toContain('1 items of the session were left out')
  })
  it('ends with words where it was cut off behind a call', async () => {
    const { task } = await replayTask(file(JSON.stringify(items.slice(0, 2))), options)
    expect(task.steps).toEqual([{ says: [{ text: 'Done.' }], answers: [], toolMs: 0 }])
  })
})

describe('what cannot be replayed is said in a sentence', () => {
  it.each([
    ['no JSON', 'hello', 'line 1 is no JSON'],
    ['half an array', '[{"type":', 'is no JSON'],
    ['lines of numbers', '1\n2', 'entry 1 is no JSON object'],
    ['objects that are no items', '{"a":1}', 'entry 1 is no item'],
    ['nothing', '', 'nothing that a model said'],
    ['only a question', JSON.stringify(items.slice(0, 1)), 'nothing that a model said'],
    [
      'too many turns',
      JSON.stringify(Array.from({ length: 1001 }, () => [items[3], items[0]]).flat()),
      'the model speaks 1001 times',
    ],
    ['too many items', JSON.stringify(Array.from({ length: 20_001 }, () => items[0])), 'more than 20000 items'],
  ])('%s', async (_, text, sentence) => {
    await expect(replayTask(file(text), options)).rejects.toThrow(sentence)
  })
  it('a file that is not there', async () => {
    await expect(replayTask(join(folder, 'none'), options)).rejects.toThrow('There is no file')
  })
})
