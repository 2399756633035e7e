// How sure one is of a ratio of pairs.
import { expect, test } from 'vitest'
import { pairedInterval, verdict } from '../../bench/compare/interval.ts'

test('a difference in every pair is told, whatever the machine did beside', () => {
  const slow = [10, 20, 15, 12, 30, 11, 14]
  const interval = pairedInterval(
    slow.map((n) => n * 1.2),
    slow,
  )
  expect(interval.median).toBeCloseTo(1.2)
  expect(verdict(interval)).toBe('more')
})
test('no difference is told where pairs lie on both sides of one, and none from too few pairs', () => {
  expect(verdict(pairedInterval([9, 11, 9, 11, 9, 11], [10, 10, 10, 10, 10, 10]))).toBe('no difference seen')
  expect(verdict(pairedInterval([20], [10]))).toBe('too few pairs to tell')
})
test('the same pairs give the same interval, and none are refused', () => {
  expect(pairedInterval([1, 2, 3], [2, 2, 2])).toEqual(pairedInterval([1, 2, 3], [2, 2, 2]))
  expect(() => pairedInterval([], [])).toThrow(RangeError)
})
