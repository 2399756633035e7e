// Expressions in which the library differs from the reference; the expected texts are those of Jinja2 3.1 for Python.
import { expect, test } from 'vitest'
import { mappingOf, write } from '../../src/codecs/jinja-probe.ts'
import { ChatTemplate } from '../../src/codecs/jinja-template.ts'
import { parseJson } from '../../src/codecs/jinja-values.ts'
import { dialectOf } from '../../src/codecs/jinja-dialect.ts'
import type { Item } from '../../src/protocol/items.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'

const given = {
  messages: [],
  text: ' \n-a b-\n ',
  nothing: null,
  object: { items: [1, 'x'], b: { c: null }, n: 1.5 },
  numbers: parseJson('{"a": 1.0, "b": 1e-07, "c": 12345678901234567890, "d": 1e22, "e": "1.0"}'),
}
const render = (source: string): string => {
  const template = new ChatTemplate(source, byteTokenizer([]))
  return template.marks.shown(template.render(given, {}, new Date('2026-07-05')))
}

test.each([
  ["{{ text.strip(' \\n-') }}|{{ text.lstrip('\\n ') }}|{{ text.rstrip() }}|", 'a b|-a b-\n |' + ' \n-a b-|'],
  ["{{ text.strip('\\n') }}|{{ text | trim }}", ' \n-a b-\n |-a b-'],
  ["{{ '\u0085x\ufeff'.strip() }}|", 'x\ufeff|'],
  ['{{ none | string }},{{ object | string }}', "None,{'items': [1, 'x'], 'b': {'c': None}, 'n': 1.5}"],
  ["{{ true }} {{ none }} {{ 1.0 }} {{ [1, 'a'] }} {{ missing }}|", "True None 1.0 [1, 'a'] |"],
  ["{{ 'a' ~ none ~ true ~ 2 }}", 'aNoneTrue2'],
  ['{% for x in missing %}{{ x }}{% else %}no{% endfor %}', 'no'],
  ["{% for c in 'aü' %}{{ c }},{% endfor %}", 'a,ü,'],
  ["{% set d = {1: 'one', 2: 'two'} %}{% for k in d %}{{ k + 1 }}{{ d[k] }}{% endfor %}", '2one3two'],
  ['{% for k, v in object.items() %}{{ k }},{% endfor %}{{ object["items"][1] }}', 'items,b,n,x'],
  ['{{ numbers | tojson }}', '{"a": 1.0, "b": 1e-07, "c": 12345678901234567890, "d": 1e+22, "e": "1.0"}'],
  ['{{ object.b | tojson(indent=2) }}', '{\n  "c": null\n}'],
  ["{{ {'b': 'ü', 'a': 1} | tojson(sort_keys=true, ensure_ascii=true) }}", '{"a": 1, "b": "\\u00fc"}'],
  [
    "{{ 1 == '1' }} {{ '' == 0 }} {{ none == missing }} {{ [1, [2]] == [1, [2]] }} {{ 1 == true }}",
    'False False False True True',
  ],
  ["{{ 'b' in object }} {{ 'z' not in object }} {{ [1] in [[1]] }} {{ 'a' < 'b' }}", 'True True True True'],
  ['{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }}', '-4 2 3.5 8'],
  ["{{ '%s is %d, %.2f' % ('a', 3, 1.5) }}", 'a is 3, 1.50'],
  [
    "{{ 'a-b-c'.rsplit('-', 1) }} {{ 'a b  c'.split() }} {{ 'a,b,c'.split(',', 1) }}",
    "['a-b', 'c'] ['a', 'b', 'c'] ['a', 'b,c']",
  ],
  [
    '{{ \'HELLO world\' | capitalize }} {{ "they\'re-so" | title }} {{ "they\'re".title() }}',
    "Hello world They're-So They'Re",
  ],
  ["{{ [3, 1, 2] | min }} {{ ['b', 'A'] | sort | join(',') }} {{ [1, 2] | sum }}", '1 A,b 3'],
  ["{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", '0'],
  [
    '{% for n in [1, 2, 3, 4] %}{{ n }}{% if n == 2 %}{% continue %}{% endif %}{% if n == 3 %}{% break %}{% endif %},{% endfor %}',
    '1,23',
  ],
  ['{% for n in [1, 2] %}{% if loop.first %}{% set x = n %}{% endif %}{{ x is defined }} {% endfor %}', 'True False '],
  ["{% macro m(a, b='z') %}{{ a }}{{ none }}{{ b }}{% endmacro %}{{ m('x') }}{{ m('x', b=true) }}", 'xNonezxNoneTrue'],
  ['{% set block %}{{ true }}{% endset %}{{ block }}', 'True'],
  [
    "{{ 'é'.encode is defined }} {{ true is number }} {{ object is mapping }} {{ 'x' is iterable }}",
    'False True True True',
  ],
  ["{{ strftime_now('%A %d %B %Y') }}", 'Sunday 05 July 2026'],
  ["{{ '{} {1} {n}'.format('a', 'b', n=2) if false else 'x' }}", 'x'],
])('%s', (source, expected) => {
  expect(render(source)).toBe(expected)
})
test.each(["{{ 'a' + 1 }}", '{{ none | length }}', "{{ 'a' in none }}", "{{ 'x'.nope() }}", '{{ 1 < "a" }}'])(
  'what the reference refuses is refused: %s',
  (source) => {
    expect(() => render(source)).toThrow(expect.objectContaining({ code: 'unsupported_by_engine' }))
  },
)

const loop = (call: string): string =>
  `{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls %}${call}{% endfor %};{% endfor %}`
test.each([
  [
    'parsed',
    loop('{{ c.function.name }}{{ c.function.arguments | tojson }}'),
    { arguments: 'parsed', calls: 'together', reasoning: 'none' },
  ],
  ['as text', loop('{{ c.function.name + c.function.arguments }}'), { arguments: 'text' }],
  [
    'by their keys',
    loop('{{ c.function.name }}{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}'),
    { arguments: 'parsed' },
  ],
  [
    'one at a time',
    loop(
      "{% if not loop.first %}{{ raise_exception('one') }}{% endif %}{{ c.function.name ~ c.function.arguments | tojson }}",
    ),
    { calls: 'split' },
  ],
  [
    'with ids of nine',
    loop(
      "{% if c.id | length != 9 %}{{ raise_exception('nine') }}{% endif %}{{ c.function.name ~ c.function.arguments | tojson }}",
    ),
    { ids: 'nine' },
  ],
  [
    'with reasoning in blocks',
    '{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for b in m.content %}{{ b.thinking or b.text }}{% endfor %}{% endif %}{% endfor %}',
    { reasoning: 'blocks' },
  ],
  [
    'with reasoning of its own',
    '{% for m in messages %}{{ m.content }}{{ m.thinking }}{% endfor %}',
    { reasoning: 'thinking' },
  ],
])('calls are given to templates %s', (_, source, expected) => {
  expect(mappingOf(new ChatTemplate(source, byteTokenizer([])))).toMatchObject(expected)
})
test('a late system message becomes a user message where the template wants it so', () => {
  const source =
    "{% for m in messages %}{% if m.role == 'system' and not loop.first %}{{ raise_exception('late') }}{% endif %}{{ m.role }}:{{ m.content }};{% endfor %}"
  const template = new ChatTemplate(source, byteTokenizer([]))
  const mapping = mappingOf(template)
  const text = (role: 'user' | 'system', words: string): Item => ({
    type: 'message',
    role,
    content: [{ type: 'input_text', text: words }],
  })
  const asked = { instructions: null, tools: [], effort: null, date: 0, opened: true }
  const items = [text('system', 'a'), text('user', 'b'), text('system', 'c')]
  expect(write(template, mapping, { ...asked, items })).toBe('system:a;user:b;user:c;')
})
test('the dialect is told from the template', () => {
  expect(dialectOf('… <tool_call>\n<function= …')).toBe('qwen-xml')
  expect(dialectOf('… <tool_call> …')).toBe('hermes')
  expect(dialectOf('… [TOOL_CALLS] …')).toBe('mistral')
  expect(dialectOf('{{ messages }}')).toBe('none')
})
