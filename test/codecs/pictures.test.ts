// Pictures in formats that have a place for them: one placeholder each, in the order in which an engine is given them.
import { expect, test } from 'vitest'
import { familyCodec } from '../../src/codecs/codec.ts'
import type { Family } from '../../src/codecs/family.ts'
import { devstral, mistralSmall } from '../../src/codecs/mistral.ts'
import { qwen35 } from '../../src/codecs/qwen-xml.ts'
import { jinjaCodec } from '../../src/codecs/jinja.ts'
import type { InputPart, Item } from '../../src/protocol/items.ts'
import type { Codec } from '../../src/turn/ports.ts'
import { bytesFor, fromScratch, resent, settingsOf } from './talks.ts'

const text = (words: string): InputPart => ({ type: 'input_text', text: words })
const image = (name: string): InputPart => ({ type: 'input_image', image_url: `data:image/png;base64,${name}` })
const from = (role: 'user' | 'developer', ...content: InputPart[]): Item => ({ type: 'message', role, content })
const call: Item = { type: 'function_call', call_id: 'c', name: 'look', arguments: '{}' }
const output = (...parts: InputPart[]): Item => ({ type: 'function_call_output', call_id: 'c', output: parts })
const codecOf = (family: Family): Codec => familyCodec(family, bytesFor(family))
const refusal = (codec: Codec, ...items: Item[]): string => {
  try {
    codec.constraint(settingsOf(), resent(items, 0))
    return ''
  } catch (e) {
    return String(e)
  }
}

test('Qwen3.5 has a placeholder for each, in messages of the user and in outputs', () => {
  const codec = codecOf(qwen35)
  const items = [
    from('user', text('see'), image('AAAA'), text('and'), image('BBBB')),
    call,
    output(image('CCCC'), text('done')),
    from('user', text('<|vision_start|><|image_pad|><|vision_end|>')),
  ]
  const chain = resent(items, 0)
  expect(refusal(codec, ...items)).toBe('')
  expect(codec.pictures(chain)).toEqual(['AAAA', 'BBBB', 'CCCC'].map((name) => `data:image/png;base64,${name}`))
  const pad = codec.tokenizer.control('<|image_pad|>')
  expect(fromScratch(codec, chain, settingsOf()).filter((id) => id === pad)).toHaveLength(3)
  expect(codec.pictures(resent([from('user', text('none'))], 0))).toEqual([])
})
test('a picture where the format has no place is refused, with what can be done', () => {
  const advice = /An engine of type chat passes images on/
  expect(refusal(codecOf(qwen35), from('user', text('go')), from('developer', image('AAAA')))).toMatch(
    /in user and tool messages only/,
  )
  expect(refusal(codecOf(mistralSmall), from('user', image('AAAA')))).toBe('')
  expect(refusal(codecOf(mistralSmall), from('user', text('go')), call, output(image('AAAA')))).toMatch(advice)
  expect(refusal(codecOf(devstral), from('user', image('AAAA')))).toMatch(advice)
  const template = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
  const own = `${template}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}`
  const codec = jinjaCodec(own, bytesFor(qwen35), { variables: { eos_token: '<|im_end|>' } })
  expect(refusal(codec, from('user', image('AAAA')))).toMatch(advice)
})
