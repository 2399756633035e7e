// Writes of a streamed turn: one for each thing that happens, however many events it makes.
import { afterEach, expect, test, vi } from 'vitest'
import { countWrites } from '../../src/bench/counts-stream.ts'
import { type Frame, FrameWriter } from '../../src/transports/frame-writer.ts'

afterEach(() => vi.restoreAllMocks())

/** created and in_progress; an item and its part are added; a delta for each chunk; three are done, and the response. */
const eventsOf = (chunks: number): number => 2 + 2 + chunks + 4

test.each([
  { chunks: 1, tokens: 1 },
  { chunks: 10, tokens: 4 },
  { chunks: 25, tokens: 16 },
])(
  'a turn of $chunks chunks with $tokens tokens each is a write for its start, for each chunk, and for its end',
  async (script) => {
    const { writes, events } = await countWrites(script)
    expect({ writes, events }).toEqual({ writes: 1 + script.chunks + 1, events: eventsOf(script.chunks) })
  },
)
test('the same turn is the same to the byte', async () => {
  const script = { chunks: 10, tokens: 4 }
  expect(await countWrites(script)).toEqual(await countWrites(script))
})
test('a write for each event would be seen', async () => {
  const { send } = FrameWriter.prototype
  vi.spyOn(FrameWriter.prototype, 'send').mockImplementation(function (this: FrameWriter, frames: readonly Frame[]) {
    for (const frame of frames) {
      void send.call(this, [frame])
      this.flush()
    }
    return undefined
  })
  const { writes, events } = await countWrites({ chunks: 10, tokens: 4 })
  expect({ writes, events }).toEqual({ writes: eventsOf(10), events: eventsOf(10) })
})
