import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { checkEvent } from './check.ts'
import { type Frame, plans, renumbered, responseWith, streamOf, usage } from './good-stream.ts'
import { Grammar } from './grammar.ts'

const judge = (frames: readonly Frame[]): string[] => {
  const grammar = new Grammar()
  return [...frames.flatMap((frame) => grammar.feed(frame)), ...grammar.end()]
}
const text = (n: number, ...deltas: string[]): Parameters<typeof streamOf>[0] => ({
  items: Array.from({ length: n }, () => ({ kind: 'message' as const, parts: [{ refusal: false, deltas }] })),
  ending: 'completed',
  lane: undefined,
})

describe('good streams', () => {
  test('are accepted, and every event of them by the schemas', () => {
    fc.assert(
      fc.property(plans, (plan) => {
        const frames = streamOf(plan)
        expect(judge(frames)).toEqual([])
        expect(frames.flatMap((frame) => checkEvent(frame, { transport: 'socket' }))).toEqual([])
      }),
      { numRuns: 150 },
    )
  })
  test('a warm-up is created, then completed', () => {
    const [created] = streamOf(text(1, 'a'))
    const completed = {
      type: 'response.completed',
      sequence_number: 1,
      response: responseWith({ status: 'completed', completed_at: 2, usage }),
    }
    expect(created && judge([created, completed])).toEqual([])
  })
  test('keepalives repeat the last number and take none', () => {
    const frames = streamOf(text(1, 'a', 'b'))
    const alive = (n: number): Frame => ({ type: 'keepalive', sequence_number: n })
    expect(judge([alive(0), ...frames.slice(0, 4), alive(3), ...frames.slice(4)])).toEqual([])
    expect(judge([...frames.slice(0, 4), alive(4), ...frames.slice(4)])).not.toEqual([])
    expect(judge([alive(1), ...frames])).not.toEqual([])
  })
  test('one open item may be left out after an interrupt, and in no other ending', () => {
    const frames = streamOf(text(2, 'a', 'b'))
    const at = frames.findIndex((frame) => frame.type === 'response.output_text.done' && frame['output_index'] === 1)
    const first = frames.find((frame) => frame.type === 'response.output_item.done')?.['item']
    const ends = (over: Record<string, unknown>, type = 'response.incomplete'): Frame[] =>
      renumbered([
        ...frames.slice(0, at),
        { type, sequence_number: 0, response: responseWith({ output: [first], usage, ...over }) },
      ])
    expect(judge(ends({ status: 'incomplete', incomplete_details: { reason: 'interrupted' } }))).toEqual([])
    expect(judge(ends({ status: 'cancelled', incomplete_details: { reason: 'cancelled' } }))).toEqual([])
    expect(judge(ends({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }))).not.toEqual([])
    expect(judge(ends({ status: 'completed', completed_at: 2 }, 'response.completed'))).not.toEqual([])
  })
  test('steer.pending may follow the terminal event, in the same numbering, once per accepted steer', () => {
    const frames = streamOf({
      items: [{ kind: 'function_call', deltas: ['{}'] }],
      ending: 'completed',
      lane: undefined,
    })
    const steer = { id: 'steer_1', previous_response_id: 'resp_1' }
    const accepted = { type: 'response.steer.accepted', sequence_number: 0, steer }
    const required_input = [{ type: 'function_call_output', call_id: 'call_0', name: 'f' }]
    const pending = {
      type: 'response.steer.pending',
      sequence_number: 0,
      steer,
      reason: 'waiting_for_required_input',
      required_input,
    }
    const good = renumbered([...frames.slice(0, 3), accepted, ...frames.slice(3), pending])
    expect(judge(good)).toEqual([])
    expect(judge(renumbered([...good, pending]))).not.toEqual([])
    expect(judge(renumbered([...frames, pending]))).not.toEqual([])
    expect(judge(renumbered([...good, accepted]))).not.toEqual([])
    expect(judge(renumbered([pending, ...frames]))).not.toEqual([])
  })
  test('a replay may join deltas of one part under the last number', () => {
    const frames = streamOf(text(1, 'a', 'b', 'c'))
    const at = frames.findIndex((frame) => frame.type === 'response.output_text.delta')
    const joined = [...frames.slice(0, at), { ...frames[at + 2], delta: 'abc' } as Frame, ...frames.slice(at + 3)]
    expect(judge(joined)).not.toEqual([])
    const grammar = new Grammar({ joined: true })
    expect(joined.flatMap((frame) => grammar.feed(frame))).toEqual([])
  })
})

describe('response.done', () => {
  const calls = streamOf({
    items: [
      { kind: 'function_call', deltas: ['{}'] },
      { kind: 'function_call', deltas: ['{}'] },
    ],
    ending: 'completed',
    lane: undefined,
  })
  const waits = (response_id: string, ...call_ids: string[]): Frame => ({
    type: 'response.done',
    sequence_number: 0,
    response_id,
    usage,
    required_input: call_ids.map((call_id) => ({ type: 'function_call_output', call_id, name: 'f' })),
  })
  const first = calls.findIndex((frame) => frame.type === 'response.output_item.done') + 1
  const with_ = (at: number, done: Frame, rollout = true): string[] => {
    const grammar = new Grammar({ rollout })
    const frames = renumbered([...calls.slice(0, at), done, ...calls.slice(at)])
    return [...frames.flatMap((frame) => grammar.feed(frame)), ...grammar.end()]
  }
  test('may stand between the items of a rollout, and nowhere else', () => {
    expect(with_(first, waits('resp_1', 'call_0'))).toEqual([])
    expect(with_(first, waits('resp_1', 'call_0'), false)).not.toEqual([])
    for (const at of [0, 1, first - 1, calls.length]) expect(with_(at, waits('resp_1', 'call_0'))).not.toEqual([])
  })
  test('names its response and the calls since the one before, all of them', () => {
    expect(with_(first, waits('resp_2', 'call_0'))).not.toEqual([])
    expect(with_(first, waits('resp_1'))).not.toEqual([])
    const second = calls.length - 1
    expect(with_(second, waits('resp_1', 'call_0', 'call_1'))).toEqual([])
    expect(with_(second, waits('resp_1', 'call_1'))).not.toEqual([])
  })
})

describe('a changed stream is refused', () => {
  // `compacting` is a notice that may be missing; everything else is needed.
  const needed = (frames: readonly Frame[], at: number): boolean =>
    frames[at]?.type !== 'response.compaction.compacting'
  const place = fc.nat({ max: 1000 })
  const runs = { numRuns: 400 }

  test('when any event is dropped, with or without a gap in the numbers', () => {
    fc.assert(
      fc.property(plans, place, fc.boolean(), (plan, seed, number) => {
        const frames = streamOf(plan)
        const at = seed % frames.length
        const without = frames.filter((_, n) => n !== at)
        if (needed(frames, at)) expect(judge(number ? renumbered(without) : without)).not.toEqual([])
      }),
      runs,
    )
  })
  test('when any event comes twice', () => {
    fc.assert(
      fc.property(plans, place, fc.boolean(), (plan, seed, number) => {
        const frames = streamOf(plan)
        const at = seed % frames.length
        const twice = frames.flatMap((frame, n) => (n === at ? [frame, frame] : [frame]))
        expect(judge(number ? renumbered(twice) : twice)).not.toEqual([])
      }),
      runs,
    )
  })
  test('when two different events change places', () => {
    fc.assert(
      fc.property(plans, place, place, (plan, one, two) => {
        const frames = streamOf(plan)
        const [a, b] = [one % frames.length, two % frames.length]
        const [first, second] = [frames[a], frames[b]]
        if (!first || !second) return
        const swapped = renumbered(frames.map((frame, n) => (n === a ? second : n === b ? first : frame)))
        if (a !== b && needed(frames, a) && needed(frames, b)) expect(judge(swapped)).not.toEqual([])
      }),
      runs,
    )
  })
  test('when an index, a number, an id or a text in it is another', () => {
    fc.assert(
      fc.property(
        plans,
        place,
        fc.constantFrom(
          'sequence_number',
          'output_index',
          'content_index',
          'item_id',
          'delta',
          'text',
          'refusal',
          'arguments',
          'input',
        ),
        (plan, seed, key) => {
          const frames = streamOf(plan)
          const having = frames.flatMap((frame, n) => (key in frame ? [n] : []))
          const at = having[seed % Math.max(1, having.length)]
          if (at === undefined) return
          const changed = frames.map((frame, n) =>
            n === at
              ? { ...frame, [key]: typeof frame[key] === 'number' ? frame[key] + 1 : `${String(frame[key])}x` }
              : frame,
          )
          expect(judge(changed)).not.toEqual([])
        },
      ),
      runs,
    )
  })
  test('when the terminal response shows other items than were sent', () => {
    fc.assert(
      fc.property(plans, (plan) => {
        const frames = streamOf(plan)
        const last = frames.at(-1)
        if (!last) return
        const response = last['response'] as { output: unknown[] }
        const other = [...frames.slice(0, -1), { ...last, response: { ...response, output: response.output.slice(1) } }]
        expect(judge(other)).not.toEqual([])
      }),
      { numRuns: 100 },
    )
  })
  test('when anything follows the terminal event', () => {
    const frames = streamOf(text(1, 'a'))
    for (const frame of frames) expect(judge(renumbered([...frames, frame]))).not.toEqual([])
  })
})
