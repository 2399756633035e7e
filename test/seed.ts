// Property tests: new runs each time, the same ones where CI is set, so that a commit passes or fails for what it changed.
// SEED=n repeats one; the message of a failure names it.
import fc from 'fast-check'

const { CI, SEED } = process.env
if (SEED !== undefined) fc.configureGlobal({ seed: Number(SEED) })
else if (!['', '0', 'false', undefined].includes(CI)) fc.configureGlobal({ seed: 20_261_130 })
