// The event log: numbering, readers that come late or are slow, joining and dropping.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ApiError } from '../../src/protocol/errors.ts'
import { isDelta, type Body, type Event } from '../../src/protocol/events.ts'
import type { Entry, Outlet } from '../../src/turn/ports.ts'
import { Log } from '../../src/turn/log.ts'

class Reader implements Outlet {
  readonly events: Event[] = []
  fell: ApiError | undefined
  #free: (() => void) | undefined
  slow = false
  send(entry: Entry): void {
    const event: unknown = JSON.parse(entry.json())
    expect(event).toEqual(entry.event)
    this.events.push(entry.event)
  }
  flush(): Promise<void> | undefined {
    if (!this.slow) return undefined
    return new Promise((resolve) => (this.#free = resolve))
  }
  release(): void {
    this.#free?.()
  }
  refuse(): void {}
  end(error?: ApiError): void {
    this.fell = error
  }
  get text(): string {
    return this.events.map((e) => (isDelta(e) ? e.delta : '')).join('')
  }
}
const delta = (text: string, item = 'msg_1', content_index = 0): Body => ({
  type: 'response.output_text.delta',
  item_id: item,
  output_index: 0,
  content_index,
  delta: text,
  logprobs: [],
})
const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('log', () => {
  test('numbers events from 0 and hands every reader all of them, also one that comes late', () => {
    const log = new Log('resp_1', 'o', 1e6)
    const [now, later] = [new Reader(), new Reader()]
    log.attach(now)
    for (const c of 'abcdef') log.append(delta(c))
    void log.flush()
    log.attach(later, 2)
    expect(now.events.map((e) => e.sequence_number)).toEqual([0, 1, 2, 3, 4, 5])
    expect(later.text).toBe('def')
  })

  test('lets its readers go once nothing follows: at once, when they have caught up, or when they come late', async () => {
    const log = new Log('resp_1', 'o', 1e6)
    const [fast, slow, late] = [new Reader(), new Reader(), new Reader()]
    slow.slow = true
    log.attach(fast)
    log.append(delta('a'))
    log.attach(slow)
    log.append(delta('b'))
    log.close()
    expect(fast.text).toBe('ab')
    expect(slow.text).toBe('a')
    expect(log.watched).toBe(true)
    slow.slow = false
    slow.release()
    await tick()
    expect(slow.text).toBe('ab')
    expect(log.watched).toBe(false)
    log.attach(late)
    expect(late.text).toBe('ab')
    expect(log.watched).toBe(false)
  })

  test('asks the engine to wait only while every reader is slow', async () => {
    const log = new Log('resp_1', 'o', 1e6)
    const [fast, slow] = [new Reader(), new Reader()]
    slow.slow = true
    log.attach(slow)
    log.append(delta('a'))
    const full = log.flush()
    expect(full).toBeInstanceOf(Promise)
    log.attach(fast)
    log.append(delta('b'))
    expect(log.flush()).toBeUndefined()
    slow.slow = false
    slow.release()
    await full
    await tick()
    expect(slow.text).toBe('ab')
    expect(fast.text).toBe('ab')
  })

  test('a reader that detaches frees an engine that waits for it', async () => {
    const log = new Log('resp_1', 'o', 1e6)
    const slow = new Reader()
    slow.slow = true
    log.attach(slow)
    log.append(delta('a'))
    const full = log.flush()
    log.detach(slow)
    await full
    expect(log.watched).toBe(false)
  })

  test('joins old deltas of one part before it drops anything, keeping the last number', () => {
    const log = new Log('resp_1', 'o', 40_000)
    for (let n = 0; n < 1000; n++) log.append(delta('x', n < 500 ? 'msg_1' : 'msg_2'))
    expect(log.bytes).toBeLessThan(40_000)
    const all = new Reader()
    log.attach(all)
    expect(all.text.length).toBe(1000)
    expect(all.events.length).toBeLessThan(1000)
    expect(all.events.at(-1)?.sequence_number).toBe(999)
  })

  test('says that events are gone when even joined ones had to go', () => {
    const log = new Log('resp_1', 'o', 10_000)
    for (let n = 0; n < 100; n++) log.append(delta('y'.repeat(1000), `msg_${n}`))
    expect(log.bytes).toBeLessThan(11_500)
    expect(() => log.attach(new Reader())).toThrow(expect.objectContaining({ code: 'events_gone' }))
    const late = new Reader()
    log.attach(late, 98)
    expect(late.text.length).toBe(1000)
  })

  test('a reader that was too slow is told, and reads no hole', async () => {
    const log = new Log('resp_1', 'o', 10_000)
    const slow = new Reader()
    slow.slow = true
    log.attach(slow)
    log.append(delta('first'))
    void log.flush()
    for (let n = 0; n < 100; n++) log.append(delta('y'.repeat(1000), `msg_${n}`))
    slow.slow = false
    slow.release()
    await tick()
    expect(slow.fell?.code).toBe('events_gone')
    expect(slow.text).toBe('first')
  })

  test('whatever was joined, a reader that resumes anywhere gets exactly the rest of the text', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.string({ maxLength: 5 }), fc.integer({ min: 0, max: 2 })), {
          minLength: 1,
          maxLength: 300,
        }),
        fc.nat(),
        (pieces, cut) => {
          const log = new Log('resp_1', 'o', 12_000)
          for (const [text, part] of pieces) log.append(delta(text, 'msg_1', part))
          const after = cut % pieces.length
          const reader = new Reader()
          try {
            log.attach(reader, after)
          } catch (e) {
            expect(e).toMatchObject({ code: 'events_gone' })
            return
          }
          expect(reader.text).toBe(
            pieces
              .slice(after + 1)
              .map(([text]) => text)
              .join(''),
          )
          const numbers = reader.events.map((e) => e.sequence_number)
          expect(numbers).toEqual([...numbers].sort((a, b) => a - b))
        },
      ),
    )
  })
})
