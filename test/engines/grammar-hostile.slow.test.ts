// Grammars made to take long: here, or in the engine that they would be given to.
import { describe, expect, it } from 'vitest'
import { gbnfOf } from '../../src/engines/gbnf.ts'
import { checkClientGrammar } from '../../src/engines/grammar-check.ts'
import { ApiError } from '../../src/protocol/errors.ts'

type Syntax = 'regex' | 'lark'
const failure = (work: () => void): string => {
  try {
    work()
  } catch (e) {
    if (e instanceof ApiError) return `${e.code}: ${e.message}`
    throw e
  }
  return 'taken'
}
const refused = (syntax: Syntax, definition: string) =>
  failure(() => checkClientGrammar({ type: 'grammar', syntax, definition }))

describe('hostile grammars', () => {
  const nested = (n: number, open: string, close: string) => open.repeat(n) + 'a' + close.repeat(n)
  const doubling = Array.from({ length: 60 }, (_, n) => `T${'x'.repeat(n + 1)}: T${'x'.repeat(n)} T${'x'.repeat(n)}`)
  it.each<[string, Syntax, string]>([
    ['repetitions of repetitions', 'regex', '((a{1000}){1000}){1000}'],
    ['nesting', 'regex', nested(30_000, '(', ')')],
    ['nested quantifiers', 'regex', nested(60, '(', '*)+')],
    ['nested bounds', 'regex', nested(60, '(', '{0,20000})')],
    ['nullable nests', 'regex', `${'('.repeat(12)}${'a?b?c?)*'.repeat(12)}`],
    ['nullable rows', 'regex', `(${'a?'.repeat(20_000)})*`],
    ['many alternatives', 'regex', 'a|'.repeat(32_000)],
    ['any case of large classes', 'regex', '(?i)' + '[\\u0100-\\u{10ffff}]'.repeat(2000)],
    ['size', 'regex', 'a'.repeat(70_000)],
    ['nesting', 'lark', `start: ${nested(30_000, '(', ')')}`],
    ['repetitions', 'lark', 'start: ((("a"~20000)~20000)~20000)~20000'],
    ['doubling terminals', 'lark', ['start: T' + 'x'.repeat(60), 'T: "a"', ...doubling].join('\n')],
    [
      'a chain of rules',
      'lark',
      ['start: r0', ...Array.from({ length: 1900 }, (_, n) => `r${n}: r${n + 1} | "a"`), 'r1900: "b"'].join('\n'),
    ],
    [
      'a chain backwards',
      'lark',
      ['start: r1900', 'r0: "b"', ...Array.from({ length: 1900 }, (_, n) => `r${n + 1}: r${n}? r${n}`)].join('\n'),
    ],
    [
      'a circle of rules',
      'lark',
      ['start: r0', ...Array.from({ length: 1900 }, (_, n) => `r${n}: r${(n + 1) % 1900} "x" | "a"`)].join('\n'),
    ],
    [
      'every rule beginning with every other',
      'lark',
      [
        'start: r0',
        ...Array.from(
          { length: 60 },
          (_, n) => `r${n}: "a" ${Array.from({ length: 60 }, (_, m) => `| r${m} "x"`).join(' ')}`,
        ),
      ].join('\n'),
    ],
    ['too many rules', 'lark', Array.from({ length: 3000 }, (_, n) => `r${n}: "a"`).join('\n')],
    ['alternatives', 'lark', `start: ${'"a"|'.repeat(16_000)}"b"`],
    ['words', 'lark', `start: ${'a '.repeat(30_000)}`],
  ])('of %s (%s) are taken or refused within seconds', (_, syntax, definition) => {
    const began = performance.now()
    const said = refused(syntax, definition)
    if (said === 'taken') {
      const content = { type: syntax, definition, quoted: true } as const
      const made = failure(() => gbnfOf({ after: undefined, rule: { type: 'whole', content } }))
      expect(made).toMatch(/^(taken|unsupported_by_engine)/)
    }
    expect(performance.now() - began).toBeLessThan(5000)
  })
})

describe('a grammar that its reader would walk through in 2^40 ways', () => {
  it('is refused', () => {
    const doubled = Array.from({ length: 40 }, (_, n) => `r${n + 1}: r${n} "x" | r${n} "y"`)
    expect(refused('lark', ['start: r40', 'r0: "b"', ...doubled].join('\n'))).toMatch(/^invalid_request.*too large/)
  })
})
