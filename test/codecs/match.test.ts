import { describe, expect, test } from 'vitest'
import { qwen25, qwen3 } from '../../src/codecs/hermes.ts'
import { mismatch } from '../../src/codecs/match.ts'

/** Of a made-up family: the smallest that a template can be. */
const toy = {
  ...qwen25,
  name: 'toy',
  head: (pen: Parameters<typeof qwen25.head>[0], head: Parameters<typeof qwen25.head>[1]) => {
    if (head.system !== undefined) qwen25.segment(pen, { kind: 'system', text: head.system }, 'head', true, head)
  },
}
const source = [
  "{% for m in messages %}{% if m.role == 'tool' %}{% if loop.previtem.role != 'tool' %}{{ '<|im_start|>user' }}{% endif %}",
  "{{ '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}",
  "{% if loop.last or loop.nextitem.role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}",
  "{% else %}{{ '<|im_start|>' + m.role + '\\n' + m.content }}{% for c in m.tool_calls %}",
  "{{ ('' if loop.first else '\\n') + '<tool_call>\\n{\"name\": \"' + c.function.name + '\", \"arguments\": ' }}",
  "{{ (c.function.arguments | tojson) + '}\\n</tool_call>' }}{% endfor %}",
  "{{ '<|im_end|>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
].join('')

describe('a template and a family', () => {
  test('that write the same match', () => {
    expect(mismatch(source, toy)).toBeUndefined()
  })
  test.each([
    ['opens the turn', "'<|im_start|>assistant\\n'", "'<|im_start|>assistant\\n<think>\\n'", 'of one question'],
    ['shows reasoning', '{% for c in', '{{ m.reasoning_content }}{% for c in', 'with two questions'],
    ['writes outputs', '\\n<tool_response>\\n', '<tool_response>\\n', 'with a tool loop'],
    [
      'has a default system message',
      '{% for m in messages %}',
      "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\nHi.<|im_end|>\\n' }}{% endif %}{% for m in messages %}",
      'without instructions',
    ],
    [
      'reads no effort',
      "assistant\\n' }}{% endif %}",
      "assistant\\n' }}{% if enable_thinking is false %}{{ '<think>' }}{% endif %}{% endif %}",
      'that wants no reasoning',
    ],
    [
      'ends a message',
      "{{ '<|im_end|>\\n' }}{% endif %}{% endfor %}",
      "{{ '<|im_end|>' }}{% endif %}{% endfor %}",
      'of one question',
    ],
  ])('where only the template %s otherwise, the first difference is told', (_, from, to, where) => {
    expect(source).toContain(from)
    expect(
      mismatch(
        source.replace(from, () => to),
        toy,
      ),
    ).toContain(`in a conversation ${where} the template writes`)
  })
  test('of another family do not match', () => {
    expect(mismatch(source, qwen3)).toContain("where 'qwen3' writes")
    expect(mismatch(source, qwen25)).toContain('You are Qwen')
  })
  test('where the template renders nothing do not match', () => {
    expect(mismatch("{{ raise_exception('no') }}", qwen3)).toContain('renders no plain conversation')
    expect(() => mismatch('{% if %}', qwen3)).toThrow('the chat template cannot be read')
  })
})
