import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readReport, reportJson } from '../../src/bench/report-json.ts'
import { reportText } from '../../src/bench/report-text.ts'
import { sample } from '../bench/sample.ts'
import { emptyFolder, run } from './program.ts'

const names = ['loop', 'flat', 'stream', 'idle', 'ttft']

describe('continuo bench', () => {
  it('says in its help what can be measured, with examples', async () => {
    const { code, out } = await run(['bench', '--help'])
    expect(code).toBe(0)
    for (const name of [...names, 'show']) expect(out).toMatch(new RegExp(`^ {2}${name}\\b.* {2,}\\w`, 'm'))
    expect(out).toContain('continuo bench show flat.json loop.json --html')
  })
  it.each(names)('%s has the flags that all have, its own, and examples', async (name) => {
    const { code, out, err } = await run(['bench', name, '--help'])
    expect([code, err]).toEqual([0, ''])
    for (const flag of ['--quick', '--repeats <n>', '--json', `continuo-bench-${name}.html`, '--save <file>'])
      expect(out).toContain(flag)
    expect(out).toMatch(new RegExp(`Examples:\\n  continuo bench ${name}`))
  })
  it.each([
    ['an unknown flag', ['bench', 'loop', '--fast'], /unknown option '--fast'/],
    ['an unknown benchmark', ['bench', 'speed'], /unknown command 'speed'/],
    ['no benchmark', ['bench'], /Usage: continuo bench/],
    ['no repeats', ['bench', 'loop', '--repeats', '0'], /It must be a whole number from 1/],
    ['nothing to show', ['bench', 'show'], /missing required argument 'file'/],
  ])('ends with 2 for %s', async (_, args, reason) => {
    const { code, err, out } = await run(args)
    expect([code, out]).toEqual([2, ''])
    expect(err).toMatch(reason)
  })
  it('refuses to measure what it could not save', async () => {
    const { code, err } = await run(['bench', 'idle', '--save', 'no/such/folder/idle.json'])
    expect(code).toBe(1)
    expect(err).toMatch(/^no\/such\/folder\/idle\.json cannot be written: there is no folder .*\n$/)
  })
  it.each([
    [
      'a length that a conversation exceeds when it begins',
      ['flat', '--lengths', '10'],
      /begins with some 1000 tokens/,
    ],
    ['an address that is none', ['loop', '--url', 'there', '--model', 'm'], /^--url there is no address of a server/],
  ])('ends with 1 and says what to give in place of %s', async (_, args, reason) => {
    const { code, err, out } = await run(['bench', ...args])
    expect([code, out]).toEqual([1, ''])
    expect(err).toMatch(reason)
  })
})

describe('continuo bench show', () => {
  it('prints a saved result as it was printed first, and as JSON', async () => {
    const cwd = emptyFolder()
    writeFileSync(join(cwd, 'loop.json'), reportJson(sample))
    expect(await run(['bench', 'show', 'loop.json'], { cwd })).toEqual({ code: 0, out: reportText(sample), err: '' })
    const { out } = await run(['bench', 'show', 'loop.json', '--json'], { cwd })
    expect(readReport(out, 'out')).toEqual(sample)
  })
  it('makes one page of several', async () => {
    const cwd = emptyFolder()
    writeFileSync(join(cwd, 'a.json'), reportJson(sample))
    writeFileSync(join(cwd, 'b.json'), reportJson({ ...sample, title: 'Another' }))
    const { code, err, out } = await run(['bench', 'show', 'a.json', 'b.json', '--html'], { cwd })
    expect([code, out]).toEqual([0, ''])
    expect(err).toMatch(/^written: .*continuo-bench-results\.html\n$/)
    const page = readFileSync(join(cwd, 'continuo-bench-results.html'), 'utf8')
    expect(page).toContain('<a href="#report-1">Another</a>')
  })
  it('ends with 1 for a file that is no result, and for one that is not there', async () => {
    const cwd = emptyFolder()
    writeFileSync(join(cwd, 'a.json'), '{"a":1}')
    const wrong = await run(['bench', 'show', 'a.json'], { cwd })
    expect([wrong.code, wrong.out]).toEqual([1, ''])
    expect(wrong.err).toMatch(/^a\.json is no saved result of continuo bench/)
    const none = await run(['bench', 'show', 'b.json'], { cwd })
    expect(none.code).toBe(1)
    expect(none.err).toMatch(/^b\.json cannot be read: ENOENT/)
  })
})
