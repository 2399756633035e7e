// Which loops a run consists of.
import { describe, expect, it } from 'vitest'
import { modeNames } from '../../src/bench/loop-modes.ts'
import { cellName, modesIn, planOf, type Wish } from '../../src/bench/loop-plan.ts'

const full: Wish = {
  calls: 30,
  rates: [65, 1000, 4000],
  rtts: [0, 50],
  repeats: 5,
  tls: 'auto',
  quick: false,
  modes: undefined,
  whole: false,
}
const quick: Wish = { ...full, calls: 10, repeats: 2, quick: true }
const shapeOf = (wish: Wish): unknown =>
  planOf(wish).map((cell) => [cellName(cell), cell.calls, cell.rounds, modesIn(cell, 0).length])

describe('the plan of the loops', () => {
  it('makes five calls once at the slow rate, and half of the calls from afar', () => {
    expect(shapeOf(full)).toEqual([
      ['65 tokens/s, loopback', 5, 1, 2],
      ['1000 tokens/s, loopback', 30, 5, 3],
      ['4000 tokens/s, loopback', 30, 5, modeNames.length],
      ['1000 tokens/s, 50 ms round trips, TLS', 15, 5, modeNames.length],
    ])
  })
  it('leaves out, when it has to be quick, what no named ratio needs', () => {
    expect(shapeOf(quick)).toEqual([
      ['65 tokens/s, loopback', 5, 1, 2],
      ['1000 tokens/s, loopback', 10, 2, 3],
      ['4000 tokens/s, loopback', 10, 2, modeNames.length - 1],
      ['1000 tokens/s, 50 ms round trips, TLS', 5, 2, 2],
    ])
  })
  it('goes through the modes there and back', () => {
    const [, cell] = planOf(quick)
    if (!cell) throw new Error('There is no cell.')
    expect(modesIn(cell, 0)).toEqual(['http-stateless', 'http-own', 'ws-chain'])
    expect(modesIn(cell, 1)).toEqual(['ws-chain', 'http-own', 'http-stateless'])
  })
})
