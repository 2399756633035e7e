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

/** The first slice now, the rest whenever it is their turn. Rejects with what the work throws. */
export function inSlices<T>(work: Work<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const slice = (): void => {
      deadline = performance.now() + sliceMs
      try {
        for (;;) {
          const step = work.next()
          if (step.done) return resolve(step.value)
          if (spent()) break
        }
      } catch (error) {
        return reject(error)
      } finally {
        deadline = Infinity
      }
      waiting.push(slice)
      schedule()
    }
    slice()
  })
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
