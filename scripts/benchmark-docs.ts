// `npm run docs:benchmarks`: writes docs/benchmarks.md, and the table in README.md, from bench/results/.
import { fileURLToPath } from 'node:url'
import { writeDocuments } from '../bench/results-docs.ts'

try {
  writeDocuments(fileURLToPath(new URL('..', import.meta.url)))
} catch (e) {
  process.stderr.write(`${e instanceof Error ? e.message : String(e)}\n`)
  process.exitCode = 1
}
