// Long work in slices: some milliseconds at a time, one slice of all that is waiting per turn of the event loop.
import { setImmediate } from 'node:timers'

/** Work yields where it may stop and goes on where it stopped. */
export type Work<T> = Generator<undefined, T, undefined>

const sliceMs = 8
let deadline = Infinity
const waiting: (() => void)[] = []
let scheduled = false

/** True when the slice is used up and the work should yield. Always false in `atOnce`. */
export const spent = (): boolean => performance.now() >= deadline

/** The first slice now, of `firstMs`; what is not done then is a promise, and goes on whenever it is its turn. */
export function inSlices<T>(work: Work<T>, firstMs = sliceMs): T | Promise<T> {
  const first = slice(work, firstMs)
  if (first.done) return first.value
  return new Promise((resolve, reject) => {
    const more = (): void => {
      try {
        const step = slice(work, sliceMs)
        if (step.done) return resolve(step.value)
        waiting.push(more)
      } catch (error) {
        reject(error)
      }
    }
    waiting.push(more)
    schedule()
  })
}
function slice<T>(work: Work<T>, ms: number): IteratorResult<undefined, T> {
  deadline = performance.now() + ms
  try {
    for (;;) {
      const step = work.next()
      if (step.done || spent()) return step
    }
  } finally {
    deadline = Infinity
  }
}
function schedule(): void {
  if (scheduled || waiting.length === 0) return
  scheduled = true
  setImmediate(() => {
    scheduled = false
    waiting.shift()?.()
    schedule()
  })
}

export function atOnce<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next()
    if (step.done) return step.value
  }
}
