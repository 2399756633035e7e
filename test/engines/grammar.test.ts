import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { gbnfOf } from '../../src/engines/gbnf.ts'
import { checkClientGrammar, checkClientSchema } from '../../src/engines/grammar-check.ts'
import { ApiError } from '../../src/protocol/errors.ts'
import { Gbnf } from './gbnf-matcher.ts'
import { applyPatch } from './apply-patch.ts'

const runs = { numRuns: Number(process.env['RUNS'] ?? 40) }
type Syntax = 'regex' | 'lark'
const of = (type: Syntax, definition: string, quoted = false) => {
  checkClientGrammar({ type: 'grammar', syntax: type, definition })
  return new Gbnf(gbnfOf({ after: undefined, rule: { type: 'whole', content: { type, definition, quoted } } }))
}
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
const inJson = (text: string) => JSON.stringify(text).slice(1, -1)

describe('a regular expression', () => {
  it.each([
    ['abc|d', ['abc', 'd'], ['ab', 'abcd', '']],
    ['^a(b|c)*$', ['a', 'abcbc'], ['b', 'ad']],
    ['^a$|^b', ['a', 'b'], ['ab']],
    ['[a-c\\d_-]+', ['a1-_'], ['e', '']],
    ['[^\\n"]{2,3}', ['ab', '😀é'], ['a', 'abcd', 'a"']],
    ['\\w+\\s\\S\\D\\W', ['ab !x?'], ['ab  x?', 'ab !1?']],
    ['(?<year>\\d{4})-(?:0[1-9]|1[0-2])', ['2026-12'], ['2026-13', '26-12']],
    ['(?i)ab(?-i)C', ['aBC', 'ABC'], ['abc']],
    ['(?i:ä)x', ['Äx', 'äx'], ['äX']],
    ['a.c', ['abc', 'a😀c'], ['a\nc', 'ac']],
    ['(?s)a.c', ['a\nc'], ['ac']],
    ['\\x41\\u0042\\u{43}\\.\\/\\-\\t', ['ABC./-\t'], ['ABC']],
    ['(a|b?)+c', ['c', 'abbac'], ['ab', 'd']],
    ['(a*)*(|x)?', ['', 'aaax'], ['xx']],
    ['(a*b*){2,}', ['', 'aabbab'], ['c']],
    ['a{3}b{2,}?', ['aaabb', 'aaabbbb'], ['aabb', 'aaab']],
    ['[\\]\\\\^]+', [']\\^'], ['x']],
    ['', [''], ['a']],
  ])('%s matches what it should', (pattern, good, bad) => {
    const [plain, quoted] = [of('regex', pattern), of('regex', pattern, true)]
    for (const text of good) {
      expect([text, plain.accepts(text)]).toEqual([text, true])
      expect([text, quoted.accepts(inJson(text))]).toEqual([text, true])
    }
    for (const text of bad) {
      expect([text, plain.accepts(text)]).toEqual([text, false])
      expect([text, quoted.accepts(inJson(text))]).toEqual([text, false])
    }
  })
  it.each([
    ['(?=a)b', 'unsupported_parameter'],
    ['(?<!a)b', 'unsupported_parameter'],
    ['(a)\\1', 'unsupported_parameter'],
    ['\\bword', 'unsupported_parameter'],
    ['\\p{L}', 'unsupported_parameter'],
    ['[[:alpha:]]', 'unsupported_parameter'],
    ['a^b', 'unsupported_parameter'],
    ['(a$)b', 'unsupported_parameter'],
    ['a++', 'unsupported_parameter'],
    ['(?x)a b', 'unsupported_parameter'],
    ['(a', 'invalid_request'],
    ['a)', 'invalid_request'],
    ['[a', 'invalid_request'],
    ['*a', 'invalid_request'],
    ['a{2,1}', 'invalid_request'],
    ['a{', 'invalid_request'],
    ['[b-a]', 'invalid_request'],
    ['a\\', 'invalid_request'],
    ['\\u{110000}', 'invalid_request'],
    ['a{99999}', 'invalid_request'],
    ['[^\\s\\S]', 'invalid_request'],
  ])('%s is refused', (pattern, code) => {
    expect(refused('regex', pattern)).toMatch(new RegExp(`^${code}`))
  })

  const atom = fc.constantFrom('a', 'b', '"', '\\n', '\\\\', '.', '[ab]', '[^a"]', '\\w', '\\s', '\\d', 'é')
  const { regex } = fc.letrec<{ regex: string }>((tie) => ({
    regex: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      atom,
      fc.tuple(tie('regex'), tie('regex')).map(([a, b]) => a + b),
      fc.tuple(tie('regex'), tie('regex')).map(([a, b]) => `(?:${a}|${b})`),
      fc
        .tuple(tie('regex'), fc.constantFrom('*', '+', '?', '{2}', '{1,3}', '{0,2}', '{2,}'))
        .map(([a, q]) => `(${a})${q}`),
    ),
  }))
  it('matches a text exactly where JavaScript matches it, and quoted exactly where the text is escaped', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '"', '\n', '\\', 'é', '1', ' '), maxLength: 7 })
    fc.assert(
      fc.property(regex, fc.array(text, { minLength: 5, maxLength: 12 }), (pattern, texts) => {
        const [plain, quoted, js] = [
          of('regex', pattern),
          of('regex', pattern, true),
          new RegExp(`^(?:${pattern})$`, 'u'),
        ]
        for (const one of texts) {
          expect([one, plain.accepts(one)]).toEqual([one, js.test(one)])
          expect([one, quoted.accepts(inJson(one))]).toEqual([one, js.test(one)])
        }
      }),
      runs,
    )
  })
  it('refuses in JSON what is not escaped', () => {
    const g = of('regex', '[^]x'.replace('[^]', '(?s:.)'), true)
    for (const text of ['\nx', '"x', '\\x', '\u0001x']) expect(g.accepts(text)).toBe(false)
    for (const text of ['\\nx', '\\"x', '\\\\x', '\\u0001x', '\\u000ax', '\\u000Ax', '/x', '😀x'])
      expect([text, g.accepts(text)]).toEqual([text, true])
  })
})

const patches = [
  '*** Begin Patch\n*** Add File: src/a b.ts\n+export const a = 1\n+\n*** End Patch',
  '*** Begin Patch\n*** Delete File: x\n*** End Patch\n',
  '*** Begin Patch\n*** Update File: a/b.py\n*** Move to: a/c.py\n@@ def f():\n     x = "\\n"\n-    return 1\n+    return 2 # é 😀\n@@\n end\n*** End of File\n*** Delete File: y\n*** End Patch',
]
const broken = [
  '',
  'diff --git a b',
  '*** Begin Patch\n*** End Patch',
  '*** Begin Patch\n*** Add File: a\nno plus\n*** End Patch',
  '*** Begin Patch\n*** Add File: \n+a\n*** End Patch',
  '*** Begin Patch\n*** Update File: a\n@@\n x\n*** End',
  '*** Begin Patch\n*** Delete File: x\n*** End Patch\n\n',
]

describe('a Lark grammar', () => {
  it('of apply_patch accepts patches and refuses broken ones, plain and in JSON', () => {
    const [plain, quoted] = [of('lark', applyPatch), of('lark', applyPatch, true)]
    for (const patch of patches) {
      expect([patch, plain.accepts(patch)]).toEqual([patch, true])
      expect([patch, quoted.accepts(inJson(patch))]).toEqual([patch, true])
      expect(quoted.accepts(patch)).toBe(false)
    }
    for (const patch of broken) {
      expect([patch, plain.accepts(patch)]).toEqual([patch, false])
      expect([patch, quoted.accepts(inJson(patch))]).toEqual([patch, false])
    }
  })
  it.each([
    [
      'start: "a" ~ 2 "b"~1..3 ["c"] ("d" | e)? | "z"\ne: "e"{2}',
      ['aab', 'aabbbcd', 'aabee', 'z'],
      ['ab', 'aabe', 'aabz'],
    ],
    ['?start.2: x\n  | y\n!x: "x"i -> named\ny.-1: "a".."c" // remark\n# another\n', ['x', 'X', 'b'], ['d']],
    [
      'start: NAME "=" INT\nNAME.3: LETTER (LETTER | "_")*\n%import common.LETTER\n%import common (INT, WS)\n%ignore WS',
      ['ab_c =\n 12', ' x=1 '],
      ['x=', 'x y=1', '1=1'],
    ],
    ['start: A B*\nA: /a+/ | "x"\nB: /[b-d]/i~1..2', ['aab', 'xBCd'], ['b', 'ax']],
    [
      '%import common.ESCAPED_STRING -> STRING\n%import common.SIGNED_NUMBER\nstart: value\n?value: STRING | SIGNED_NUMBER | "[" [value ("," value)*] "]"',
      ['"a\\"b"', '-1.5e3', '[1,[],"x"]'],
      ['[1,]', '"a', '01x'],
    ],
    ['start: "say \\"hi\\"\\n" /\\/\\w+\\// "\\x41\\u0042"', ['say "hi"\n/ab/AB'], ['say hi']],
    ['start: a | \na: "a" |', ['', 'a'], ['aa']],
  ])('%j', (grammar, good, bad) => {
    const g = of('lark', grammar)
    for (const text of good) expect([text, g.accepts(text)]).toEqual([text, true])
    for (const text of bad) expect([text, g.accepts(text)]).toEqual([text, false])
  })
  it.each([
    ['directly', 'start: expr\nexpr: expr "+" term | expr "-" term | term\nterm: term "*" F | F\nF: /[0-9]/ | "(" ")"'],
    ['through an optional part', 'start: (start ("+" | "-"))? t\nt: [t "*"] /[0-9]|\\(\\)/'],
    [
      'through another rule',
      'start: expr\nexpr: sum | term\nsum: expr ("+" | "-") term\nterm: product | F\nproduct: term "*" F\nF: /[0-9]/ | "()"',
    ],
    ['behind what may be empty', 'start: e\ne: s e "+" t | e s "-" t | t\ns: ""?\nt: t "*" F | F\nF: /[0-9]/ | "()"'],
  ])('may begin a rule with itself, %s', (_, grammar) => {
    const g = of('lark', grammar)
    for (const text of ['1', '1+2-3', '1*2+()*4', '1-2*3*4']) expect([text, g.accepts(text)]).toEqual([text, true])
    for (const text of ['', '+1', '1+', '1+*2', '12']) expect([text, g.accepts(text)]).toEqual([text, false])
  })
  it.each([
    ['%llguidance {}\nstart: "a"', 'unsupported_parameter', '%llguidance'],
    ['start: %json { "type": "object" }', 'unsupported_parameter', '%json'],
    ['start: x\n%import python.NAME', 'unsupported_parameter', 'common'],
    ['start: X\n%import common.NOTHING', 'unsupported_parameter', 'common.NOTHING'],
    ['%declare X\nstart: X', 'unsupported_parameter', '%declare'],
    ['start: x{"a"}\nx{y}: y', 'unsupported_parameter', 'template'],
    ['start[capture]: "a"', 'unsupported_parameter', 'attributes'],
    ['start: <|end|>', 'invalid_request', 'line 1'],
    ['start: /(?=a)a/', 'unsupported_parameter', 'look-around'],
    ['start: a', 'invalid_request', '`a` is not defined'],
    ['begin: "a"', 'invalid_request', '`start`'],
    ['start: "a"\nstart: "b"', 'invalid_request', 'twice'],
    ['start: A\nA: B\nB: "b" A?', 'invalid_request', 'names itself'],
    ['start: A\nA: b\nb: "b"', 'invalid_request', 'names the rule'],
    ['start: ("a"', 'invalid_request', '`)`'],
    ['start: "a', 'invalid_request', 'line 1'],
    ['start: "a" start', 'invalid_request', 'no finite text'],
    ['start: start', 'invalid_request', 'no finite text'],
    ['start: "b".."a"', 'invalid_request', 'range'],
    ['start: "a"~3..1', 'invalid_request', 'wrong way'],
    ['start: "\\q"', 'invalid_request', 'escape'],
  ])('%j is refused', (grammar, code, words) => {
    expect(refused('lark', grammar)).toMatch(new RegExp(`^${code}`))
    expect(refused('lark', grammar)).toContain(words)
  })
  it('leaves out alternatives that lead to no end', () => {
    const g = of('lark', 'start: "a" | "b" loop\nloop: "c" loop')
    expect(g.accepts('a')).toBe(true)
    expect(g.accepts('bc')).toBe(false)
  })
})

describe('a grammar past its bounds', () => {
  it('is refused: too many characters once written out, a NUL, half a pair, size', () => {
    expect(refused('regex', '((a{1000}){1000}){1000}')).toMatch(/^invalid_request.*more than/)
    expect(refused('lark', 'start: (("a"~2000)~2000)')).toMatch(/^invalid_request.*more than/)
    expect(refused('regex', 'a\0')).toMatch(/NUL/)
    expect(refused('regex', '\ud800')).toMatch(/surrogate/)
    expect(refused('regex', 'x'.repeat(65_537))).toMatch(/more than/)
  })
})

describe('schemas of clients', () => {
  const wrong = (schema: unknown) => failure(() => checkClientSchema(schema, 'text.format.schema'))
  it('pass with whatever keywords, as long as they are bounded', () => {
    expect(
      wrong({ type: 'object', properties: { a: { not: {}, pattern: '^a+$', maxLength: 100, minItems: 3 } } }),
    ).toBe('taken')
    expect(wrong({ $defs: { a: { $ref: '#' } }, const: { $ref: 'http://x', minLength: 'no schema' } })).toBe('taken')
  })
  it.each([
    [{ $ref: 'http://internal/' }, '$ref'],
    [{ properties: { a: { $ref: '#/$defs/x' } } }, "'properties/a'"],
    [{ items: { maxItems: 1e9 } }, '`maxItems`'],
    [{ minLength: -1 }, '`minLength`'],
    [{ maxItems: 10_000, items: { maxItems: 10_000 } }, 'items in all'],
    [{ pattern: '(a{1000}){1000}' }, 'pattern'],
    [{ pattern: '(?=x)' }, 'look-around'],
    [{ patternProperties: { '(': {} } }, 'regular expression'],
    [{ description: 'x'.repeat(300_000) }, 'characters'],
  ])('%j is refused', (schema, words) => {
    expect(wrong(schema)).toMatch(/^(invalid_request|unsupported_parameter)/)
    expect(wrong(schema)).toContain(words)
  })
  it('are refused when nested past 64 levels', () => {
    let deep: unknown = { type: 'integer' }
    for (let n = 0; n < 70; n++) deep = { items: deep }
    expect(wrong(deep)).toMatch(/nested/)
  })
})
