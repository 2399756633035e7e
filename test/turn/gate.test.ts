// The gate beside inference: when words may leave, what it looks at, and what a flag does. And the marks of a turn's stages.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, expect, test } from 'vitest'
import type { Chunk, Classifier } from '../../src/turn/ports.ts'
import { Halt } from '../../src/turn/run.ts'
import { type Mark, turnChannel } from '../../src/turn/trace.ts'
import { chunks, done, end, run, says, words } from './ran.ts'

describe('the gate', () => {
  type Asked = { text: string; context: string | undefined }
  const classifier = (
    looksAt: Classifier['looksAt'],
    verdict: (asked: Asked) => boolean | Promise<boolean>,
  ): Classifier & { asked: Asked[] } => {
    const asked: Asked[] = []
    return {
      name: 'own',
      looksAt,
      asked,
      async check(text, context) {
        asked.push({ text, context })
        return { ok: await verdict({ text, context }), context: `${context ?? ''}|${text}` }
      },
    }
  }
  const hello = (): AsyncIterable<Chunk> => chunks(says(words('Hello there.'), end), done)
  const later = <T>(value: T): Promise<T> => new Promise((resolve) => setTimeout(() => resolve(value), 40))

  test.each([
    ['at once', (): boolean => false],
    ['slowly', (): Promise<boolean> => later(false)],
    [
      'by throwing',
      (): boolean => {
        throw new Error('the classifier is down')
      },
    ],
  ])('lets no word of the model out when the input is flagged %s', async (_, verdict) => {
    const { response, text, problems, kept } = await run(hello, { classifiers: [classifier('input', verdict)] })
    expect(problems).toEqual([])
    expect(text).toBe('')
    expect(response).toMatchObject({ status: 'failed', error: { code: 'invalid_prompt' }, output: [] })
    expect(kept).toBeUndefined()
  })
  test('holds the words back until a slow check has passed, while the engine works', async () => {
    let working = false
    const begun = performance.now()
    const { response, text } = await run(
      async function* () {
        working = true
        yield* hello()
      },
      { classifiers: [classifier('input', () => later(0).then(() => working))] },
    )
    expect(performance.now() - begun).toBeGreaterThan(35)
    expect(text).toBe('Hello there.')
    expect(response.status).toBe('completed')
  })
  test.each(['input', 'output'] as const)(
    'that never answers about the %s does not keep a turn from being stopped',
    async (looksAt) => {
      const stop = new AbortController()
      setTimeout(() => stop.abort(new Halt('cancelled')), 50)
      const { outcome } = await run(hello, { stop, classifiers: [classifier(looksAt, () => new Promise(() => {}))] })
      expect(outcome).toBe('cancelled')
    },
  )
  test('that never answers does not keep a turn that was stopped before it was waited for', async () => {
    const stop = new AbortController()
    const stopping = async function* (): AsyncIterable<Chunk> {
      stop.abort(new Halt('cancelled'))
      yield* hello()
    }
    const { outcome } = await run(stopping, { stop, classifiers: [classifier('input', () => new Promise(() => {}))] })
    expect(outcome).toBe('cancelled')
  })
  test('flags an answer without a word, too', async () => {
    const { response } = await run(() => chunks(done), { classifiers: [classifier('input', () => later(false))] })
    expect(response).toMatchObject({ status: 'failed', error: { code: 'invalid_prompt' } })
  })
  test('flags the output: what was said is cut there, and the conversation does not go on', async () => {
    const output = classifier('output', ({ text }) => !text.includes('bad'))
    const { response, kept, problems } = await run(
      async function* () {
        yield says(words('x'.repeat(600)))
        yield says(words('bad'.padEnd(600)))
        await later(0)
        yield says(words('never'), end)
        yield done
      },
      { classifiers: [output] },
    )
    expect(problems).toEqual([])
    expect(response).toMatchObject({ status: 'failed', error: { code: 'invalid_prompt' } })
    expect(JSON.stringify(response.output)).not.toContain('never')
    expect(output.asked).toHaveLength(2)
    expect(kept).toBeUndefined()
  })
  test('waits for the check of the last words before it says that all is well', async () => {
    const { response } = await run(hello, { classifiers: [classifier('output', () => later(false))] })
    expect(response).toMatchObject({ status: 'failed', error: { code: 'invalid_prompt' } })
  })
  test('looks at what is new only, with the context that the last check left, and at warm-ups with their next turn', async () => {
    const message = (text: string) => ({
      type: 'message' as const,
      role: 'user' as const,
      content: [{ type: 'input_text' as const, text }],
    })
    const input = classifier('input', () => true)
    const { kept } = await run(hello, {
      classifiers: [input],
      body: { input: 'new' },
      before: (root) =>
        root
          .add({ response: 'a', from: 'input', items: [message('old')] })
          .add({ response: 'a', from: 'model', items: [], checked: 'so far' })
          .add({ response: 'warm', from: 'input', items: [message('warm-up')] }),
    })
    expect(input.asked).toEqual([{ text: 'warm-up\nnew', context: 'so far' }])
    expect(kept?.checked).toBe('so far|warm-up\nnew')
  })
})

test('marks say when each stage was reached, in order, once', async () => {
  const marks: Mark[] = []
  const note = (mark: unknown): void => void marks.push(mark as Mark)
  subscribe(turnChannel, note)
  const passing: Classifier = {
    name: 'own',
    looksAt: 'input',
    check: () => new Promise((resolve) => setTimeout(() => resolve({ ok: true, context: '' }), 20)),
  }
  const body = { store: true }
  await run(() => chunks(says(words('a'), end), done), { classifiers: [passing], body })
  await new Promise((resolve) => setTimeout(resolve, 20))
  unsubscribe(turnChannel, note)
  expect(marks.map((m) => m.stage)).toEqual([
    'resolved',
    'admitted',
    'created',
    'called',
    'first',
    'gated',
    'generated',
    'kept',
    'finished',
    'settled',
  ])
  expect(new Set(marks.map((m) => m.id)).size).toBe(1)
  expect(marks.map((m) => m.at)).toEqual(marks.map((m) => m.at).toSorted((a, b) => a - b))
})
