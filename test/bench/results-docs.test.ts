// What docs/benchmarks.md and README.md say of measurements is what the committed results say.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { benchmarksPage, documents, readResults, withHeadline } from '../../bench/results-docs.ts'
import { sample } from './sample.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

describe('docs of benchmarks', () => {
  it.each(['docs/benchmarks.md', 'README.md'])('%s is as `npm run docs:benchmarks` writes it', (file) => {
    const written = documents(root, readResults(root)).get(file)
    expect(written).toBeDefined()
    expect(readFileSync(`${root}/${file}`, 'utf8')).toBe(written)
  })
  it('name the command, the machine, every ratio with its target, the tables and the notes of a result', () => {
    const page = benchmarksPage('# A\n\n{{report loop}}\n', new Map([['loop', sample]]))
    expect(page).toContain(
      '# A\n\n`continuo bench loop --rates 65,1000,4000`\n\n2026-11-30 09:30 UTC · Continuo 0.1.0 · AMD EPYC',
    )
    expect(page).toContain(
      '| the same at 4,000 tokens/s (`ws_over_stateless_4000`) | 0.412 [0.388–0.440] | ≤ 0.4 | missed by 3 %, not in every repeat |',
    )
    expect(page).toContain(
      '**End to end, by mode and rate.** Seconds for the whole task, medians of 5 repeats [least–most].',
    )
    expect(page).toContain('\n- No real network and no GPU')
  })
  it('say of a benchmark without a result how to get one', () => {
    expect(benchmarksPage('{{report flat}}', new Map())).toContain(
      '`npx continuo bench flat --save bench/results/flat.json`',
    )
  })
  it('leave no result out, and no placeholder in', () => {
    expect(() => benchmarksPage('nothing', new Map([['loop', sample]]))).toThrow(/loop\.json stands nowhere/)
    expect(() => benchmarksPage('{{tables loop}}', new Map())).toThrow(/is no placeholder/)
  })
  it('head the README with what has a limit, and with nothing but the benchmarks of the program', () => {
    const readme = 'a\n<!-- benchmarks: written by npm run docs:benchmarks -->\nold\n<!-- /benchmarks -->\nb\n'
    const written = withHeadline(
      readme,
      new Map([
        ['loop', sample],
        ['micro', { ...sample, targets: [{ ratio: 'x', what: 'micro', atMost: 1 }] }],
      ]),
    )
    expect(written).toMatch(/^a\n.*\n\| what \| seen \| target \| \|\n/)
    expect(written).toContain('(`ws_over_rollout`)')
    expect(written).not.toMatch(/old|ws_over_own_http|micro/)
    expect(withHeadline(written, new Map([['loop', sample]]))).toBe(written)
    expect(() => withHeadline('no marks', new Map())).toThrow(/README\.md has no/)
  })
})
